package broker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
)

// kafkaServer answers the requests of a producer, until it sends records: those are swallowed.
func kafkaServer(metadata func(*kmsg.MetadataResponse)) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			head := make([]byte, 4)
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(head))
			if _, err := io.ReadFull(conn, body); err != nil {
				return
			}
			key, version, correlation := int16(binary.BigEndian.Uint16(body)), int16(binary.BigEndian.Uint16(body[2:])), body[4:8]
			var response kmsg.Response
			switch kmsg.Key(key) {
			case kmsg.ApiVersions:
				response = versions(version)
				version = 0
			case kmsg.Metadata:
				made := kmsg.NewPtrMetadataResponse()
				metadata(made)
				response = made
			case kmsg.InitProducerID:
				response = kmsg.NewPtrInitProducerIDResponse()
			default:
				continue
			}
			response.SetVersion(version)
			answer := response.AppendTo(append([]byte(nil), correlation...))
			if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
				return
			}
		}
	}
}

// versions are those without flexible headers. A newer question is asked again.
func versions(asked int16) kmsg.Response {
	response := kmsg.NewPtrApiVersionsResponse()
	if asked > 0 {
		response.ErrorCode = 35 // UNSUPPORTED_VERSION
	}
	for key, most := range map[kmsg.Key]int16{kmsg.ApiVersions: 0, kmsg.Metadata: 7, kmsg.Produce: 7, kmsg.InitProducerID: 1} {
		one := kmsg.NewApiVersionsResponseApiKey()
		one.ApiKey, one.MaxVersion = int16(key), most
		if key == kmsg.Produce {
			one.MinVersion = 3
		}
		response.ApiKeys = append(response.ApiKeys, one)
	}
	return response
}

// partitions answers that a topic has a partition at each of n brokers.
func partitions(response *kmsg.MetadataResponse, n int32, at func(node int32) (host string, port int32)) {
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = new("many")
	for node := range n {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID = node
		broker.Host, broker.Port = at(node)
		response.Brokers = append(response.Brokers, broker)
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Partition, partition.Leader, partition.Replicas, partition.ISR = node, node, []int32{node}, []int32{node}
		topic.Partitions = append(topic.Partitions, partition)
	}
	response.Topics = append(response.Topics, topic)
}

// A cluster may name any number of brokers: a target has 64 connections at most.
func TestKafkaThatNamesManyBrokers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var open, most atomic.Int64
	var port atomic.Int32
	serve := kafkaServer(func(response *kmsg.MetadataResponse) {
		partitions(response, 500, func(node int32) (string, int32) { return "127.0.0.1", port.Load() })
	})
	address := hostile(t, func(conn net.Conn) {
		for now, before := open.Add(1), most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		defer open.Add(-1)
		serve(conn)
	})
	_, text, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(text)
	port.Store(int32(n))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var group sync.WaitGroup
	refused := make(chan struct{})
	tell := sync.OnceFunc(func() { close(refused) })
	for range 300 {
		group.Go(func() {
			var refusal *broker.RefusalError
			if err := f.pool.Publish(ctx, f.target("kafka://"+address+"/many"), message(uuid.NewString())); errors.As(err, &refusal) && refusal.Kind == "too_many_connections" {
				tell()
			}
		})
	}
	select {
	case <-refused:
	case <-time.After(time.Minute):
		t.Error("no connection is refused")
	}
	// A connection is refused when 64 are dialled, which may be before the server has begun with them.
	for end := time.Now().Add(time.Minute); most.Load() < 10 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel(errors.New("over"))
	group.Wait()
	if most.Load() > 64 || most.Load() < 10 {
		t.Errorf("FIGURE kafka_connections_most=%d", most.Load())
	}
}

// The addresses that a cluster names are checked as its own is.
func TestKafkaThatNamesOthersAddresses(t *testing.T) {
	t.Parallel()
	f := newFixtureThatMayCall(t, "127.0.0.1/32")
	var port atomic.Int32
	var reached atomic.Int64
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); group.Wait() })
	serve := kafkaServer(func(response *kmsg.MetadataResponse) {
		partitions(response, 1, func(int32) (string, int32) { return "127.0.0.2", port.Load() })
	})
	port.Store(int32(listener.Addr().(*net.TCPAddr).Port))
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if host, _, _ := net.SplitHostPort(conn.LocalAddr().String()); host != "127.0.0.1" {
				reached.Add(1)
			}
			group.Go(func() { serve(conn); _ = conn.Close() })
		}
	})
	err = f.publish("kafka://127.0.0.1:"+strconv.Itoa(int(port.Load()))+"/many", message(uuid.NewString()))
	if !errors.Is(err, outbound.ErrAddress) || reached.Load() != 0 {
		t.Errorf("%v, and %d connections to an address that may not be called", err, reached.Load())
	}
}
