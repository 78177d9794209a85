package faultproxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
)

// Postgres starts a proxy before a PostgreSQL server, "tcp" or "unix". It loses
// the answer to a write that is committed: CommandComplete and ReadyForQuery of
// COMMIT, or of a statement that stood for itself. The client must not ask for TLS.
func Postgres(network, target string, faults *Faults) (*Proxy, error) {
	return start(network, target, func(client, server net.Conn) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(server, client) // the other direction learns of the end
			_ = server.Close()
		}()
		answerUntilLost(client, server, faults)
		_, _ = client.Close(), server.Close()
		<-done
	})
}

// Messages of PostgreSQL's protocol, from the server.
const (
	commandComplete = 'C'
	readyForQuery   = 'Z'
	// idle is ReadyForQuery's word for "in no transaction".
	idle = 'I'
)

// answerUntilLost passes the server's messages on. What follows a write's
// CommandComplete is held until ReadyForQuery: only that comes after the commit.
func answerUntilLost(client, server net.Conn, faults *Faults) {
	messages := bufio.NewReader(server)
	out := bufio.NewWriter(client)
	var held []byte
	tag := ""
	for {
		kind, message, err := readMessage(messages)
		if err != nil {
			_ = out.Flush() // what came before the end
			return
		}
		if kind == commandComplete {
			if wrote := writeTag(message[5:]); wrote != "" {
				tag = wrote
			}
		}
		if tag == "" {
			if _, err := out.Write(message); err != nil {
				return
			}
		} else {
			held = append(held, message...)
		}
		if kind == readyForQuery && tag != "" {
			if message[5] == idle && faults.decide(tag) {
				_ = out.Flush() // rows that came before; the client has no word of the end
				return
			}
			if _, err := out.Write(held); err != nil {
				return
			}
			held, tag = nil, ""
		}
		if messages.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// readMessage reads one message whole: a byte for its kind, four for its length,
// which counts itself.
func readMessage(from *bufio.Reader) (byte, []byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(head[1:])) - 4
	if length < 0 || length > 1<<30 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	message := make([]byte, len(head)+length)
	copy(message, head)
	_, err := io.ReadFull(from, message[5:])
	return head[0], message, err
}

// writeTag gives the command of a CommandComplete that has changed something, ""
// for others: "COMMIT", or the first word of "INSERT 0 3", "UPDATE 1".
func writeTag(text []byte) string {
	words := strings.Fields(strings.TrimRight(string(text), "\x00"))
	if len(words) == 0 {
		return ""
	}
	switch words[0] {
	case "COMMIT":
		return "COMMIT"
	case "INSERT", "UPDATE", "DELETE", "MERGE":
		if words[len(words)-1] != "0" {
			return words[0]
		}
	}
	return ""
}
