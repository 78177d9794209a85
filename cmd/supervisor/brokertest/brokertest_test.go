package brokertest

import (
	"os"
	"testing"
)

func TestCloseLeavesNothingOfAnOpenedRabbitMQ(t *testing.T) {
	t.Parallel()
	rabbitMQ.need(t)
	server, err := OpenRabbitMQ()
	if err != nil {
		t.Fatal(err)
	}
	if !server.answers() {
		t.Error("it does not answer")
	}
	if server.Close(); server.answers() {
		t.Error("it still answers")
	}
	if _, err := os.Stat(server.dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}
