package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// readJSON reads an argument that is JSON, @FILE with JSON in it, or - for standard
// input. limit is in bytes.
func readJSON(flag, argument string, in io.Reader, limit int) (json.RawMessage, error) {
	var content []byte
	var err error
	switch {
	case argument == "-":
		content, err = readSome(in, limit)
	case strings.HasPrefix(argument, "@"):
		content, err = readFile(argument[1:], limit)
	default:
		content = []byte(argument)
	}
	if err == nil {
		content, err = plaintext.Decode(content)
	}
	if err != nil {
		return nil, cli.Usage("--%s: %w", flag, err)
	}
	content = bytes.TrimSpace(content)
	if len(content) > limit {
		return nil, cli.Usage("--%s: exceeds the limit of %d bytes", flag, limit)
	}
	if err := checkJSON(content); err != nil {
		return nil, cli.Usage("--%s: %w", flag, err)
	}
	return content, nil
}

func readFile(name string, limit int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	return readSome(file, limit)
}

// readSome stops a little above the limit: enough to know that it is exceeded, white space not counted, and a
// device such as /dev/zero has an end.
func readSome(in io.Reader, limit int) ([]byte, error) {
	const whiteSpace = 64 << 10
	return io.ReadAll(io.LimitReader(in, int64(limit+whiteSpace)))
}

// checkJSON returns an error with the place of the first syntax error.
func checkJSON(content []byte) error {
	if len(content) == 0 {
		return errors.New("is empty; JSON, @FILE or - is wanted")
	}
	var value any
	err := json.Unmarshal(content, &value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("is not JSON: %w (at byte %d); a text needs its quotes: '\"text\"'", syntax, syntax.Offset)
	}
	return err
}
