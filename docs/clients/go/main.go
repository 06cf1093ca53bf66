// Create a topic and list all: go run . HOST:PORT NAME. The address may be that of any controller or broker.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	klammv1 "example.com/topics/klamm/v1"
)

func dial(address string) *grpc.ClientConn {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return connection
}

// activeController asks any process which controller is active.
func activeController(ctx context.Context, address string) string {
	connection := dial(address)
	defer connection.Close()
	cluster, err := klammv1.NewClusterServiceClient(connection).DescribeCluster(
		ctx, &klammv1.DescribeClusterRequest{}, grpc.WaitForReady(true))
	if err != nil {
		log.Fatal(err)
	}
	if cluster.ControllerAddress == "" {
		log.Fatal("no controller is active; try again")
	}
	return cluster.ControllerAddress
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: topics HOST:PORT NAME")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection := dial(activeController(ctx, os.Args[1]))
	defer connection.Close()
	controller := klammv1.NewControllerServiceClient(connection)

	created, err := controller.CreateTopics(ctx, &klammv1.CreateTopicsRequest{
		// Numbers for which 0 means something are pointers: nil is absent.
		Topics: []*klammv1.NewTopic{{
			Name: os.Args[2], NumPartitions: proto.Int32(3), ReplicationFactor: proto.Int32(1),
		}},
		TimeoutMs: proto.Int32(10_000),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, result := range created.Topics {
		if code := result.GetErrorCode(); code != 0 {
			log.Fatalf("%s: error %d: %s", result.Name, code, result.ErrorMessage)
		}
	}
	listed, err := controller.ListTopics(ctx, &klammv1.ListTopicsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for _, topic := range listed.Topics {
		fmt.Println(topic.Name)
	}
}
