package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// SQLSTATEs, https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	codeNoDatabase = "3D000"
	codeDuplicate  = "42P04"
)

// maxMessage bounds the size of a message from the server, in bytes.
const maxMessage = 1 << 20

// ensureDatabase creates a database unless it exists. It implements the part of the
// protocol (https://www.postgresql.org/docs/current/protocol-message-formats.html)
// that one statement needs: psql is not installed everywhere, and a driver would be
// a dependency.
func ensureDatabase(ctx context.Context, socket, user, database string) error {
	if database == "" {
		return nil
	}
	err := execute(ctx, socket, user, database, "")
	if refused, ok := errors.AsType[*serverError](err); !ok || refused.code != codeNoDatabase {
		return err
	}
	err = execute(ctx, socket, user, "postgres", `CREATE DATABASE "`+strings.ReplaceAll(database, `"`, `""`)+`"`)
	if refused, ok := errors.AsType[*serverError](err); ok && refused.code == codeDuplicate {
		return nil
	}
	return err
}

// serverError is an ErrorResponse.
type serverError struct{ code, message string }

func (e *serverError) Error() string { return e.message + " (SQLSTATE " + e.code + ")" }

// execute connects and runs one statement that returns nothing; an empty one is
// an attempt to connect.
func execute(ctx context.Context, socket, user, database, sql string) error {
	if strings.ContainsRune(user+database, 0) {
		return errors.New("a name cannot hold a zero byte")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// The end of ctx ends a read or write in progress.
	release := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer release()
	err = converse(conn, user, database, sql)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func converse(conn net.Conn, user, database, sql string) error {
	in := bufio.NewReader(conn)
	const version3 = "\x00\x03\x00\x00"
	startup := version3 + "user\x00" + user + "\x00database\x00" + database + "\x00\x00"
	if err := send(conn, "", startup); err != nil {
		return err
	}
	if err := untilReady(in); err != nil {
		return err
	}
	if sql != "" {
		if err := send(conn, "Q", sql+"\x00"); err != nil {
			return err
		}
		if err := untilReady(in); err != nil {
			return err
		}
	}
	_ = send(conn, "X", "") // Terminate; the outcome is known without it
	return nil
}

// send writes a message: its kind (the first one has none), its length, which
// counts itself, and its body.
func send(w io.Writer, kind, body string) error {
	msg := binary.BigEndian.AppendUint32([]byte(kind), uint32(len(body)+4)) //nolint:gosec // this package's own statement, far below 4 GiB
	_, err := w.Write(append(msg, body...))
	return err
}

// untilReady reads messages up to ReadyForQuery. It returns the first error
// that the server reports; after one that ends the session it reads no more.
func untilReady(in *bufio.Reader) error {
	var refused error
	for {
		kind, body, err := receive(in)
		switch {
		case err != nil && refused != nil:
			return refused
		case err != nil:
			return err
		case kind == 'E' && refused == nil:
			refused = parseError(body)
		case kind == 'R' && !bytes.Equal(body, []byte{0, 0, 0, 0}):
			return errors.New("the server asks for a password: its pg_hba.conf does not trust the socket")
		case kind == 'Z':
			return refused
		}
	}
}

func receive(in *bufio.Reader) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > maxMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	body = make([]byte, size-4)
	_, err = io.ReadFull(in, body)
	return head[0], body, err
}

// parseError reads the fields of an ErrorResponse: a letter, a text, a zero.
func parseError(body []byte) *serverError {
	e := &serverError{code: "?", message: "unknown error"}
	for field := range bytes.SplitSeq(body, []byte{0}) {
		if len(field) == 0 {
			continue
		}
		switch text := string(field[1:]); field[0] {
		case 'C':
			e.code = text
		case 'M':
			e.message = text
		}
	}
	return e
}
