package resp_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/forgequeue/forgequeue/shared/server/resp"
)

// said is a connection whose server says one text and leaves.
type said struct {
	net.Conn
	io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func TestRepliesPassAndNonsenseEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		good bool
	}{
		"simple replies":         {"+OK\r\n:1\r\n-ERR no\r\n_\r\n,1.5\r\n#t\r\n(123\r\n$-1\r\n*-1\r\n", true},
		"strings":                {"$5\r\na\r\n*b\r\n$0\r\n\r\n=7\r\ntxt:abc\r\n", true},
		"nested":                 {"*2\r\n*1\r\n$1\r\na\r\n%1\r\n+k\r\n*0\r\n+OK\r\n", true},
		"a push":                 {">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", true},
		"much in many replies":   {strings.Repeat("$6\r\nabcdef\r\n", 10_000), true},
		"no type":                {"hello\r\n", false},
		"HTTP":                   {"HTTP/1.1 400 Bad Request\r\n\r\n", false},
		"no length":              {"$abc\r\n", false},
		"a negative length":      {"*-2\r\n", false},
		"a length that wraps":    {"$9223372036854775807\r\n", false},
		"more than there is":     {"*1000000000000\r\n", false},
		"a long string":          {"$99999999\r\n", false},
		"deeper than any answer": {strings.Repeat("*1\r\n", 1000), false},
		"wide at each depth":     {strings.Repeat("*90000\r\n", 3), false},
		"a line without end":     {"+" + strings.Repeat("x", 1<<17), false},
		"zero bytes":             {"\x00\x00\x00\x00", false},
		"an attribute":           {"|1\r\n+a\r\n+b\r\n+OK\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, reader := range map[string]io.Reader{
				"at once": strings.NewReader(test.text), "byte by byte": iotest.OneByteReader(strings.NewReader(test.text)),
			} {
				conn := resp.Checked(said{Reader: reader})
				got, err := io.ReadAll(conn)
				if test.good && (err != nil || string(got) != test.text) {
					t.Errorf("%s: read %d of %d bytes, %v", how, len(got), len(test.text), err)
				}
				if !test.good && !errors.Is(err, resp.ErrNonsense) {
					t.Errorf("%s: %v after %d bytes", how, err, len(got))
				}
				if _, err := conn.Read(make([]byte, 1)); !test.good && !errors.Is(err, resp.ErrNonsense) {
					t.Errorf("%s: read on: %v", how, err)
				}
			}
		})
	}
}
