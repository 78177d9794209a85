package storetest

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// FakeRedis starts a server that reads commands as Redis does and answers each with what answer makes
// of its words, which may be nonsense; HELLO alone it refuses, as old servers do. It runs until the
// test ends, and needs nothing installed.
func FakeRedis(tb testing.TB, answer func(command []string) string) (url string) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { answerCommands(conn, answer) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return "redis://" + listener.Addr().String()
}

func answerCommands(conn net.Conn, answer func(command []string) string) {
	defer conn.Close()
	for lines := bufio.NewReader(conn); ; {
		command, err := readCommand(lines)
		if err != nil {
			return
		}
		text := "-ERR unknown command\r\n"
		if command[0] != "hello" {
			text = answer(command)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			return
		}
	}
}

// readCommand reads one command, a list of strings. None may contain a line end.
func readCommand(lines *bufio.Reader) (words []string, err error) {
	line, err := lines.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	for range n {
		if _, err := lines.ReadString('\n'); err != nil { // the length
			return nil, err
		}
		word, err := lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		words = append(words, strings.TrimSpace(word))
	}
	return words, err
}
