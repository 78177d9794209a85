package broker_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
)

func silence(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// frame is one of AMQP.
func frame(kind byte, channel uint16, payload []byte) []byte {
	f := append([]byte{kind}, binary.BigEndian.AppendUint16(nil, channel)...)
	f = binary.BigEndian.AppendUint32(f, uint32(len(payload)))
	return append(append(f, payload...), 0xce)
}

func method(channel, class, id uint16, arguments ...byte) []byte {
	payload := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), id)
	return frame(1, channel, append(payload, arguments...))
}

func short(s string) []byte { return append([]byte{byte(len(s))}, s...) }

func long(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

// amqpServer takes a connection up to the first message, then does as the test says.
func amqpServer(then func(conn net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		if _, err := in.Discard(8); err != nil {
			return
		}
		start := append([]byte{0, 9}, long("")...)
		start = append(append(start, long("PLAIN")...), long("en_US")...)
		answers := map[[2]uint16][]byte{
			{10, 11}: method(0, 10, 30, 0, 0, 0, 2, 0, 0, 0, 0), // start-ok: tune
			{10, 40}: method(0, 10, 41, short("")...),           // open
			{20, 10}: method(1, 20, 11, long("")...),            // channel.open
			{85, 10}: method(1, 85, 11),                         // confirm.select
		}
		if _, err := conn.Write(method(0, 10, 10, start...)); err != nil {
			return
		}
		for {
			head := make([]byte, 7)
			if _, err := io.ReadFull(in, head); err != nil {
				return
			}
			payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
			if _, err := io.ReadFull(in, payload); err != nil {
				return
			}
			if head[0] != 1 {
				continue
			}
			what := [2]uint16{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
			if what == [2]uint16{60, 40} { // basic.publish
				go func() { _, _ = io.Copy(io.Discard, in) }()
				then(conn)
				return
			}
			if answer := answers[what]; answer != nil {
				if _, err := conn.Write(answer); err != nil {
					return
				}
			}
		}
	}
}

func returned() []byte {
	arguments := append([]byte{1, 56}, short("NO_ROUTE")...) // 312
	arguments = append(append(arguments, short("a")...), short("b")...)
	header := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, 0)
	return append(method(1, 60, 50, arguments...), frame(2, 1, append(header, 0, 0))...)
}

func endlessly(what []byte) func(net.Conn) {
	many := make([]byte, 0, 64<<10)
	for len(many) < 60<<10 {
		many = append(many, what...)
	}
	return func(conn net.Conn) {
		for {
			if _, err := conn.Write(many); err != nil {
				return
			}
		}
	}
}

func once(what []byte) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Write(what)
		silence(conn)
	}
}

// Whatever a broker sends, a publish ends with a failure, soon, and nothing of it is kept.
func TestHostileBrokersAreDisconnected(t *testing.T) {
	t.Parallel()
	tag := binary.BigEndian.AppendUint64(nil, 1<<40)
	huge := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, 1<<60)
	servers := map[string]struct {
		url   string
		serve func(net.Conn)
	}{
		"returns without end":            {"amqp://%/a/b", amqpServer(endlessly(returned()))},
		"heartbeats without end":         {"amqp://%/a/b", amqpServer(endlessly(frame(8, 0, nil)))},
		"a heartbeat in a channel":       {"amqp://%/a/b", amqpServer(once(frame(8, 1, nil)))},
		"a confirm of what was not sent": {"amqp://%/a/b", amqpServer(once(method(1, 60, 80, append(tag, 1)...)))},
		"a message to nobody":            {"amqp://%/a/b", amqpServer(once(method(1, 60, 60, make([]byte, 20)...)))},
		"a frame that is too large":      {"amqp://%/a/b", amqpServer(once([]byte{3, 0, 1, 0x7f, 0xff, 0xff, 0xff}))},
		"a body that is too large":       {"amqp://%/a/b", amqpServer(once(append(returned()[:len(returned())-22], frame(2, 1, huge)...)))},
		"no frame":                       {"amqp://%/a/b", amqpServer(once([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")))},
		"HTTP, which is not AMQP":        {"amqp://%/a/b", once([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))},
		"a greeting without end":         {"nats://%/a", endlessly([]byte("INFO"))},
		"HTTP, which is not NATS":        {"nats://%/a", once([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))},
		"a line without end":             {"nats://%/a", natsServer(endlessly([]byte("PING")))},
		"pings without end":              {"nats://%/a", natsServer(endlessly([]byte("PING\r\n")))},
		"replies to nobody":              {"nats://%/a", natsServer(endlessly([]byte("MSG x 1 2\r\n{}\r\n")))},
		"a reply that is too large":      {"nats://%/a", natsServer(once([]byte("MSG x 1 2000000000\r\n")))},
		"a reply of another length":      {"nats://%/a", natsServer(once([]byte("MSG x 1 2\r\n{}{}{}{}\r\n")))},
		"a word of no protocol":          {"nats://%/a", natsServer(once([]byte("HELP me\r\n")))},
		"a reply above all bounds":       {"kafka://%/a", once([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1})},
		"bytes without end":              {"kafka://%/a", endlessly([]byte{0, 0, 0, 4, 0, 0, 0, 1})},
	}
	f := newFixture(t)
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			address := hostile(t, s.serve)
			err := f.publish(strings.Replace(s.url, "%", address, 1), message(uuid.NewString()))
			var refusal *broker.RefusalError
			if !errors.As(err, &refusal) || refusal.Kind == "unroutable" {
				t.Errorf("%v", err)
			}
		})
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 256<<20 {
		t.Errorf("%d bytes are kept", memory.HeapAlloc)
	}
}

// natsServer greets, and answers the first message as the test says.
func natsServer(then func(conn net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := conn.Write([]byte(`INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576,"connect_urls":["127.0.0.2:1"]}` + "\r\n")); err != nil {
			return
		}
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "PING") {
				_, _ = conn.Write([]byte("PONG\r\n"))
			}
			if strings.HasPrefix(line, "HPUB") {
				go func() { _, _ = io.Copy(io.Discard, lines) }()
				then(conn)
				return
			}
		}
	}
}

// No address inside a network is connected to, and none without TLS that the operator does not allow.
func TestBrokersAddressesAreChecked(t *testing.T) {
	t.Parallel()
	f := newFixtureThatMayCall(t, "127.0.0.2/32")
	reached := make(chan struct{}, 100)
	address := hostile(t, func(net.Conn) { reached <- struct{}{} })
	for _, url := range []string{"amqp://%/a/b", "amqps://%/a/b", "nats://%/a", "tls://%/a", "kafka://%/a", "kafka+tls://%/a"} {
		err := f.publish(strings.Replace(url, "%", address, 1), message(uuid.NewString()))
		if !errors.Is(err, outbound.ErrAddress) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if len(reached) > 0 {
		t.Errorf("%d connections reached it", len(reached))
	}
}
