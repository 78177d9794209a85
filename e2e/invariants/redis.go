package invariants

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// RedisWithoutTTL lists the keys that never end. It speaks the few words of the
// protocol (RESP2) that this takes; the URL is redis://host:port or unix:///path.
func RedisWithoutTTL(ctx context.Context, address string) ([]string, error) {
	r, err := dialRedis(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.conn.Close() }()
	keys, err := r.ask("KEYS", "*")
	if err != nil {
		return nil, err
	}
	var endless []string
	for _, key := range keys {
		ttl, err := r.ask("TTL", key)
		if err != nil {
			return nil, err
		}
		if ttl[0] == "-1" {
			endless = append(endless, key)
		}
	}
	return endless, nil
}

// RedisDo runs one command on a Redis, as in RedisDo(ctx, url, "FLUSHALL").
func RedisDo(ctx context.Context, address string, words ...string) error {
	_, err := RedisAsk(ctx, address, words...)
	return err
}

// RedisAsk is RedisDo, and gives the answer, flat.
func RedisAsk(ctx context.Context, address string, words ...string) ([]string, error) {
	r, err := dialRedis(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.conn.Close() }()
	return r.ask(words...)
}

func dialRedis(ctx context.Context, address string) (*redis, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	network, target := "tcp", u.Host
	if u.Scheme == "unix" {
		network, target = "unix", u.Path
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, target)
	if err != nil {
		return nil, err
	}
	r := &redis{conn: conn, reader: bufio.NewReader(conn)}
	err = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if password, ok := u.User.Password(); ok && err == nil {
		_, err = r.ask("AUTH", password)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return r, nil
}

type redis struct {
	conn   net.Conn
	reader *bufio.Reader
}

// ask sends a command and gives its answer, flat.
func (r *redis) ask(words ...string) ([]string, error) {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(r.conn, command.String()); err != nil {
		return nil, err
	}
	return r.answer()
}

func (r *redis) answer() ([]string, error) {
	line, err := r.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	switch line[0] {
	case '-':
		return nil, fmt.Errorf("redis: %s", line[1:])
	case '$':
		size, err := strconv.Atoi(line[1:])
		if err != nil || size < 0 {
			return []string{""}, err
		}
		text := make([]byte, size+2)
		_, err = io.ReadFull(r.reader, text)
		return []string{string(text[:size])}, err
	case '*':
		count, err := strconv.Atoi(line[1:])
		if err != nil {
			return nil, err
		}
		var all []string
		for range count {
			one, err := r.answer()
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
	return []string{line[1:]}, nil
}
