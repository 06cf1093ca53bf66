"""An S3 server of moto's on loopback."""

import contextlib
import uuid
from collections.abc import Iterator

import pyarrow.fs
from moto.server import ThreadedMotoServer


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Runs it; yields the environment in which clients find it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {
            "AWS_ACCESS_KEY_ID": "klamm",
            "AWS_SECRET_ACCESS_KEY": "of no meaning",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        server.stop()


def new_bucket() -> str:
    """Make a bucket; its name. In the environment of the server."""
    name = f"audits-{uuid.uuid4().hex}"
    system, _ = pyarrow.fs.FileSystem.from_uri(f"s3://{name}?allow_bucket_creation=true")
    system.create_dir(name)
    return name
