package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// mediaLines is the media type of JSON lines.
const mediaLines = "application/jsonl"

// ErrPartialExport says that an export broke off: what was given is not all.
var ErrPartialExport = errors.New("client: the export broke off")

// ExportUser gives all that is kept of a user's jobs: each job, followed by its attempts, output and signals, then the
// user's schedules. It is one request, which is not repeated; what it gives is whole if no error ends it, else the
// error is ErrPartialExport, ctx's, or a refusal.
func (c *Client) ExportUser(ctx context.Context, user string) iter.Seq2[api.ExportLine, error] {
	one := call{method: http.MethodGet, path: []string{"v1", "users", user, "export"}, accept: mediaLines}
	return func(yield func(api.ExportLine, error) bool) {
		if err := c.export(ctx, one, func(line api.ExportLine) bool { return yield(line, nil) }); err != nil {
			yield(api.ExportLine{}, fmt.Errorf("%s users/%s/export: %w", one.method, user, err))
		}
	}
}

func (c *Client) export(ctx context.Context, one call, take func(api.ExportLine) bool) error {
	target, err := c.target(one)
	if err != nil {
		return err
	}
	response, err := c.send(ctx, target.String(), nil, one)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // its end is not waited for
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK || media != mediaLines {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // an unfinished one says less
		return refusal(response.StatusCode, response.Header, body)
	}
	lines := json.NewDecoder(response.Body)
	for {
		var line api.ExportLine
		switch err := lines.Decode(&line); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w: %w", ErrPartialExport, err)
		case line.Kind == api.ExportEnd:
			return nil
		case !take(line):
			return nil
		}
	}
}
