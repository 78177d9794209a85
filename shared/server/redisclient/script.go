package redisclient

import (
	"context"
	"crypto/sha1" //nolint:gosec // by which Redis names scripts
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script and the name that Redis knows it by.
type Script struct{ source, sha string }

// NewScript makes one.
func NewScript(source string) Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // by which Redis names scripts
	return Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// SHA is its name in Redis.
func (s Script) SHA() string { return s.sha }

// Call is one call of a script, and its answer.
type Call struct {
	Keys []string
	Args []any

	// Reply are the parts of the answer: int64, string and nil. A script that returns one value gives one part.
	Reply []any
	Err   error
}

// Run makes all calls in one round trip, and a second one for those that a server does not know the script for: after a
// start, a flush of its scripts, a failover. Each call has its own reply or error.
func (c *Client) Run(ctx context.Context, s Script, calls []*Call) {
	unknown := pipeline(ctx, c, calls, func(p redis.Pipeliner, one *Call) *redis.Cmd {
		return p.EvalSha(ctx, s.sha, one.Keys, one.Args...)
	})
	if len(unknown) > 0 {
		// EVAL loads the script into the server's cache, and is the call at the same time.
		pipeline(ctx, c, unknown, func(p redis.Pipeliner, one *Call) *redis.Cmd {
			return p.Eval(ctx, s.source, one.Keys, one.Args...)
		})
	}
}

// pipeline sends calls and reads their answers. It gives those that failed only because the script is unknown: nothing
// of them was done.
func pipeline(ctx context.Context, c *Client, calls []*Call, add func(redis.Pipeliner, *Call) *redis.Cmd) (unknown []*Call) {
	sent := library(c).Pipeline()
	commands := make([]*redis.Cmd, len(calls))
	for i, one := range calls {
		commands[i] = add(sent, one)
	}
	panicked := execute(ctx, sent)
	for i, one := range calls {
		if one.Err = panicked; panicked != nil {
			continue
		}
		one.Reply, one.Err = parts(commands[i])
		if redis.HasErrorPrefix(one.Err, "NOSCRIPT") {
			unknown = append(unknown, one)
		}
	}
	return unknown
}

func execute(ctx context.Context, pipeline redis.Pipeliner) (panicked error) {
	defer fence(&panicked)
	_, _ = pipeline.Exec(ctx) // every command has its own error
	return nil
}

func parts(cmd *redis.Cmd) ([]any, error) {
	value, err := cmd.Result()
	if err != nil {
		return nil, err
	}
	if several, ok := value.([]any); ok {
		return several, nil
	}
	return []any{value}, nil
}
