package bucket

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

//go:embed limiter.lua
var limiterLua string

// scriptCall is one call of the limiter script, and its answer.
type scriptCall struct {
	redisclient.Call

	// verdict is about those of the call's requests that do not pass.
	verdict Verdict
	passed  int64
	now     int64 // µs of Redis TIME
	hint    string
	debts   []int64
}

func newCall(keys []string, args []any) *scriptCall {
	return &scriptCall{Call: redisclient.Call{Keys: keys, Args: args}}
}

// run makes all calls. It gives the first error; each call has its own.
func run(ctx context.Context, client *redisclient.Client, script redisclient.Script, calls []*scriptCall) (first error) {
	plain := make([]*redisclient.Call, len(calls))
	for i, c := range calls {
		plain[i] = &c.Call
	}
	client.Run(ctx, script, plain)
	for _, c := range calls {
		if c.Err = c.read(); c.Err != nil && first == nil {
			first = c.Err
		}
	}
	return first
}

var errScriptReply = errors.New("bucket: the script's reply cannot be read")

// read parses the answer.
func (c *scriptCall) read() error {
	if c.Err != nil {
		return fmt.Errorf("limiter script: %w", c.Err)
	}
	parts := c.Reply
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
