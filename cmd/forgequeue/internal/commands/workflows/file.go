package workflows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// readFile reads JSON of a file, or of standard input for -. A member that the request does not have is refused: it
// would not be sent.
func readFile(name string, in io.Reader, into any) error {
	content, err := readSome(name, in)
	if err == nil {
		content, err = plaintext.Decode(content)
	}
	if err != nil {
		return cli.Usage("%s: %w", name, err)
	}
	if len(content) > api.MaxBatchBody {
		return cli.Usage("%s: exceeds the limit of %d bytes", name, api.MaxBatchBody)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(into)
	if errors.Is(err, io.EOF) {
		err = errors.New("is empty")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("is not JSON: %w (at byte %d)", syntax, syntax.Offset)
	}
	if err == nil && decoder.More() {
		err = errors.New("has more than one JSON value")
	}
	if err != nil {
		return cli.Usage("%s: %w", name, err)
	}
	return nil
}

// readSome stops above the limit, so that a device such as /dev/zero has an end.
func readSome(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // only read
		in = file
	}
	return io.ReadAll(io.LimitReader(in, api.MaxBatchBody+1))
}
