package admission

import (
	"context"
	"crypto/sha1" //nolint:gosec // by which Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed limiter.lua
var limiterLua string

// script is a Lua script and the name that Redis knows it by.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // by which Redis names scripts
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// scriptCall is one call of the limiter script, and its answer.
type scriptCall struct {
	keys []string
	args []any

	// verdict is about those of the call's requests that do not pass.
	verdict Verdict
	passed  int64
	now     int64 // µs of Redis TIME
	hint    string
	debts   []int64
	err     error
}

// run makes all calls in one round trip, and a second one for those that a
// server does not know the script for: after a start, a flush of its scripts, a
// failover. It gives the first error; each call has its own.
func (s script) run(ctx context.Context, client redis.UniversalClient, calls []*scriptCall) error {
	unknown := s.pipeline(ctx, client, calls, func(p redis.Pipeliner, c *scriptCall) *redis.Cmd {
		return p.EvalSha(ctx, s.sha, c.keys, c.args...)
	})
	if len(unknown) > 0 {
		// EVAL loads the script into the server's cache, and is the call at the same time.
		s.pipeline(ctx, client, unknown, func(p redis.Pipeliner, c *scriptCall) *redis.Cmd {
			return p.Eval(ctx, s.source, c.keys, c.args...)
		})
	}
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// pipeline sends calls and reads their answers. It gives those that failed only
// because the script is unknown: nothing of them was done.
func (s script) pipeline(
	ctx context.Context, client redis.UniversalClient, calls []*scriptCall, add func(redis.Pipeliner, *scriptCall) *redis.Cmd,
) (unknown []*scriptCall) {
	pipeline := client.Pipeline()
	commands := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		commands[i] = add(pipeline, c)
	}
	panicked := fenced(func() error {
		_, _ = pipeline.Exec(ctx) // every command has its own error
		return nil
	})
	for i, c := range calls {
		if c.err = panicked; panicked != nil {
			continue
		}
		c.err = c.read(commands[i])
		if redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	return unknown
}

var errScriptReply = errors.New("admission: the script's reply cannot be read")

// read parses the answer.
func (c *scriptCall) read(cmd *redis.Cmd) error {
	parts, err := cmd.Slice()
	if err != nil {
		return fmt.Errorf("limiter script: %w", err)
	}
	const before = 4 // of the debts
	if len(parts) < before {
		return errScriptReply
	}
	verdict, ok1 := parts[0].(int64)
	now, ok2 := parts[1].(int64)
	hint, ok3 := parts[2].(string)
	passed, ok4 := parts[3].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return errScriptReply
	}
	c.verdict, c.now, c.hint, c.passed = Verdict(verdict), now, strings.Clone(hint), passed
	c.debts = make([]int64, len(parts)-before)
	for i, part := range parts[before:] {
		if c.debts[i], ok1 = part.(int64); !ok1 {
			return errScriptReply
		}
	}
	return nil
}
