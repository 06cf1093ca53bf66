// Create a topic and list all: node topics.js PROTO_FOLDER HOST:PORT NAME. The address may be that of any controller
// or broker; the folder is the one that has klamm/v1/*.proto.
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const { promisify } = require("node:util");

const [, , folder, address, name] = process.argv;
const definition = loader.loadSync(["klamm/v1/cluster.proto", "klamm/v1/controller.proto"], {
  includeDirs: [folder],
  keepCase: true,
  longs: String,
});
const { v1 } = grpc.loadPackageDefinition(definition).klamm;

// A method of a service as a function that returns a promise.
function caller(Service, at) {
  const client = new Service(at, grpc.credentials.createInsecure());
  return (method, request) => {
    const deadline = Date.now() + 15_000;
    return promisify(client[method].bind(client))(request, new grpc.Metadata({ waitForReady: true }), { deadline });
  };
}

async function main() {
  const cluster = await caller(v1.ClusterService, address)("DescribeCluster", {});
  if (!cluster.controller_address) throw new Error("no controller is active; try again");
  const controller = caller(v1.ControllerService, cluster.controller_address);
  const created = await controller("CreateTopics", {
    topics: [{ name, num_partitions: 3, replication_factor: 1 }],
    timeout_ms: 10_000,
  });
  for (const result of created.topics) {
    if (result.error_code) throw new Error(`${result.name}: error ${result.error_code}: ${result.error_message}`);
  }
  for (const topic of (await controller("ListTopics", {})).topics) console.log(topic.name);
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error.message);
    process.exit(1);
  },
);
