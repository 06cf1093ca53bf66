"""Diagnostic lines."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import grpc
import pytest
import structlog

from cluster.process.diagnostics import configure_diagnostics, silenced


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_machine_gets_json_stamped_with_role_and_node() -> None:
    stream = io.StringIO()
    configure_diagnostics("controller", 1001, stream=stream)
    structlog.stdlib.get_logger("x").info("elected", epoch=3)
    logging.getLogger("library").warning("slow %s", "disk")
    ours, foreign = (json.loads(line) for line in stream.getvalue().splitlines())
    assert ours["event"] == "elected"
    assert (ours["epoch"], ours["role"], ours["node"], ours["level"]) == (3, "controller", 1001, "info")
    assert (foreign["event"], foreign["role"], foreign["node"]) == ("slow disk", "controller", 1001)


def test_a_person_gets_key_value_lines() -> None:
    stream = Terminal()
    configure_diagnostics("broker", stream=stream)
    structlog.stdlib.get_logger().info("registered", broker_epoch=12)
    assert "registered" in stream.getvalue()
    assert "broker_epoch" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_lines_below_the_level_are_left_out_and_errors_keep_their_traceback() -> None:
    stream = io.StringIO()
    configure_diagnostics("broker", 1, stream=stream)
    log = structlog.stdlib.get_logger()
    log.debug("detail")
    try:
        raise OSError("disk")
    except OSError:
        log.exception("failed")
    (line,) = (json.loads(text) for text in stream.getvalue().splitlines())
    assert "OSError: disk" in line["exception"]


def test_lines_are_dropped_only_inside_a_silence_which_an_error_ends_too() -> None:
    stream = io.StringIO()
    configure_diagnostics("controller", stream=stream)
    log = structlog.stdlib.get_logger()
    log.info("before")
    with silenced():
        log.error("within")
        with silenced():
            log.error("deeper")
        log.error("within still")
        # Libraries have their own to say, whatever is rehearsed meanwhile.
        logging.getLogger("library").warning("slow disk")
    with pytest.raises(OSError, match="disk"), silenced():
        raise OSError("disk")
    log.info("after")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["before", "slow disk", "after"]


async def test_the_silence_of_one_task_is_not_that_of_another() -> None:
    stream = io.StringIO()
    configure_diagnostics("controller", stream=stream)
    log = structlog.stdlib.get_logger()

    async def rehearse() -> None:
        with silenced():
            log.info("rehearsed")
            await asyncio.sleep(0.01)
            log.info("rehearsed")

    async def work() -> None:
        await asyncio.sleep(0.005)
        log.info("done")

    await asyncio.gather(rehearse(), work())
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["done"]


async def test_a_caller_that_does_not_take_its_answer_leaves_no_traceback() -> None:
    """gRPC logs an exception of its own for each, at the will of any client."""
    stream = io.StringIO()
    configure_diagnostics("broker", 1, stream=stream)

    async def answer(_request: bytes, _call: object) -> bytes:
        return bytes(20 << 20)

    server = grpc.aio.server()
    calls = {"call": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("service", calls),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for _ in range(500):
            # More than clients take by default: it hangs up, mostly while the answer is being sent.
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/service/call")(b"")
            if stream.getvalue():
                break
    await server.stop(None)
    line = json.loads(stream.getvalue().splitlines()[0])
    assert line["level"] == "warning"
    assert line["event"].endswith(": /service/call")
    assert "Traceback" not in stream.getvalue()
