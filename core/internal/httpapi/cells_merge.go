package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// merged are the answers of several cells to the items of one call. It is safe for concurrent use.
type merged struct {
	mu      sync.Mutex
	results []json.RawMessage
	unsent  []func()
}

func newMerged(items int) *merged { return &merged{results: make([]json.RawMessage, items)} }

// rawResults is hop.Results whose entries are JSON already.
type rawResults struct {
	Results []json.RawMessage `json:"results"`
}

// rawOf gives the results of a response as JSON.
func rawOf(made response) ([]json.RawMessage, error) {
	text, err := encode(made.value)
	if err != nil {
		return nil, err
	}
	var raw rawResults
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("httpapi: a cell's answer: %w", err)
	}
	return raw.Results, nil
}

// take puts a cell's answer to the items at places where they belong.
func (m *merged) take(ctx context.Context, items []hop.Item[json.RawMessage], places []int, made response, err error) {
	var raw []json.RawMessage
	if err == nil {
		raw, err = rawOf(made)
	}
	if err == nil && len(raw) != len(places) {
		err = fmt.Errorf("httpapi: a cell answered %d of %d items", len(raw), len(places))
	}
	if err != nil {
		if made.unsent != nil {
			made.unsent()
		}
		m.refuseAll(ctx, items, places, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, place := range places {
		m.results[place] = raw[i]
	}
	if made.unsent != nil {
		m.unsent = append(m.unsent, made.unsent)
	}
}

func (m *merged) refuseAll(ctx context.Context, items []hop.Item[json.RawMessage], places []int, err error) {
	for _, place := range places {
		m.refuse(ctx, place, &items[place], err)
	}
}

// refuse answers one item with an error.
func (m *merged) refuse(ctx context.Context, place int, item *hop.Item[json.RawMessage], err error) {
	m.set(ctx, place, result[json.RawMessage, json.RawMessage](ctx, item, nil, err))
}

func (m *merged) set(ctx context.Context, place int, answer any) {
	text, err := marshal(answer)
	if err != nil {
		text, _ = marshal(result(ctx, &hop.Item[struct{}]{}, &struct{}{}, err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results[place] = text
}

// response is the answer to the whole call.
func (m *merged) response() (response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	made := response{value: rawResults{Results: m.results}}
	if len(m.unsent) > 0 {
		made.unsent = func() {
			for _, each := range m.unsent {
				each()
			}
		}
	}
	return made, nil
}

// single asks one cell one item, and gives its typed result. unsent is as a response's.
func single[Req, Resp any](ctx context.Context, d *Divider, cell int, op hop.Op[Req, Resp], item hop.Item[Req]) (answer hop.Result[Resp], unsent func()) {
	refused := func(err error) hop.Result[Resp] { return result[Req, Resp](ctx, &item, nil, err) }
	body, err := marshal(hop.Envelope[Req]{Items: []hop.Item[Req]{item}})
	if err != nil {
		return refused(err), nil
	}
	made, err := d.ask(ctx, cell, op.Path, body)
	if err != nil {
		return refused(err), nil
	}
	if typed, ok := made.value.(hop.Results[Resp]); ok && len(typed.Results) == 1 {
		return typed.Results[0], made.unsent
	}
	if made.unsent != nil {
		made.unsent()
	}
	return refused(fmt.Errorf("httpapi: %s: a cell's answer has the type %T", op.Path, made.value)), nil
}
