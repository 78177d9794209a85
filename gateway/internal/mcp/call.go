package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forgequeue/forgequeue/gateway/internal/inner"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// internalDetail shows nothing of an error.
const internalDetail = "The server failed unexpectedly."

// call does what a tool is for. A refusal is an answer too: the problem, as the API has it.
func (h *Handler) call(m *Message, t *tool, text json.RawMessage) (result *sdk.CallToolResult) {
	defer func() { // the SDK calls it in a goroutine of its own, where a panic would end the process
		switch failure := recover(); failure {
		case nil:
		case http.ErrAbortHandler: // the API has logged why
			result = refused(m, problem.New(problem.CoreUnavailable, "The answer has ended before its end. Nothing was changed; try again."))
		default:
			h.o.Logger.Error("tool panics", "tool", t.name, "correlation_id", m.CorrelationID, "panic", fmt.Sprint(failure), "stack", string(debug.Stack()))
			result = refused(m, problem.New(problem.Internal, internalDetail))
		}
	}()
	answer, err := h.ask(m, t, text)
	switch {
	case err != nil:
		return refused(m, err)
	case answer.Status >= http.StatusBadRequest:
		return told(string(fit(answer.Body.Bytes(), mostText)), true)
	case t.end:
		return told(last(answer.Body.Bytes(), mostText), false)
	}
	return told(string(fit(answer.Body.Bytes(), mostText)), false)
}

// ask asks the API for a tool. One that is confirmed first counts, by a dry run of the same request.
func (h *Handler) ask(m *Message, t *tool, text json.RawMessage) (*inner.Answer, error) {
	given, err := t.read(text)
	if err != nil {
		return nil, err
	}
	if t.confirmed {
		var confirmed int64
		if json.Unmarshal(given[matchedArgument], &confirmed) != nil {
			return nil, problem.Invalid(problem.FieldError{Field: matchedArgument, Message: "must be a whole number"})
		}
		counted, err := h.send(m, t, given, map[string]any{"dry_run": true})
		if err != nil || counted.Status >= http.StatusBadRequest {
			return counted, err
		}
		var now api.Matched
		if err := json.Unmarshal(counted.Body.Bytes(), &now); err != nil {
			return nil, fmt.Errorf("dry run of %s: %w", t.name, err)
		}
		if now.MatchedCapped { // the number is one of the count's bound, not of the jobs
			return nil, problem.Invalid(problem.FieldError{Field: "filter", Message: "more jobs match than can be counted; use a narrower filter. Nothing was changed"})
		}
		if now.Matched != confirmed {
			return nil, problem.Invalid(problem.FieldError{Field: matchedArgument, Message: fmt.Sprintf("is %d, and %d match now. Nothing was changed; look at what matches, and confirm that number", confirmed, now.Matched)})
		}
	}
	return h.send(m, t, given, nil)
}

// send sends a tool's request to the API, with the key of the message.
func (h *Handler) send(m *Message, t *tool, given asked, more map[string]any) (*inner.Answer, error) {
	r, err := t.request(m.Request.Context(), given, more)
	if err != nil {
		return nil, err
	}
	r = inner.Request(r.Context(), r, m.Request)
	r.Header["Authorization"] = m.Request.Header["Authorization"]
	r.Header.Set("X-Correlation-Id", m.CorrelationID)
	if m.Traceparent != "" {
		r.Header.Set("Traceparent", m.Traceparent)
	}
	return inner.Ask(h.o.API, r), nil
}

func told(text string, failed bool) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: failed}
}

// refused is an error that the API has not seen, in its form.
func refused(m *Message, err error) *sdk.CallToolResult {
	p, is := errors.AsType[*problem.Problem](err)
	if !is {
		p = problem.New(problem.Internal, internalDetail)
	}
	signed := *p
	signed.Instance, signed.RequestID = m.Request.URL.Path, m.CorrelationID
	text, err := encode(&signed)
	if err != nil {
		return told(err.Error(), true)
	}
	return told(string(text), true)
}
