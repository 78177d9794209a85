package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/jobschema"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// on is a client of one of the gateways.
func on(t *testing.T, c *stack.Cluster, gateway int, key string) *client.Client {
	t.Helper()
	made, err := client.New(client.Options{URL: c.Gateways[gateway].URL, APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func codeOf(err error) problem.Code {
	if p, ok := problem.From(err); ok {
		return p.Code
	}
	return ""
}

func pointersOf(err error) string {
	var all []string
	if p, ok := problem.From(err); ok {
		for _, one := range p.Errors {
			all = append(all, one.Field)
		}
	}
	return strings.Join(all, " ")
}

func messagesOf(err error) string {
	var all []string
	if p, ok := problem.From(err); ok {
		for _, one := range p.Errors {
			all = append(all, one.Message)
		}
	}
	return strings.Join(all, " ")
}

// A type's life over two gateways: payloads, versions, force, defaults, replays, results, and its end.
func TestJobTypes(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	owner, other := c.NewTenant(t, "typed"), c.NewTenant(t, "other")
	first, second := on(t, c, 0, owner.Key), on(t, c, 1, owner.Key)
	ctx := t.Context()
	mail := func(payload string) api.SubmitRequest {
		return api.SubmitRequest{Type: "mail.send", Payload: json.RawMessage(payload)}
	}
	keyed := client.WithIdempotencyKey
	old, err := second.Submit(ctx, mail(`{"n":7}`), keyed("k")) // both gateways have the key cached
	if err != nil {
		t.Fatal(err)
	}
	schema := api.JobTypeRequest{
		PayloadSchema: json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"n":{"type":"integer","maximum":5}}}`),
		Defaults:      &api.JobTypeDefaults{Queue: new("mails"), Priority: new(8), MaxAttempts: new(7)},
	}
	if _, err := first.PutType(ctx, "mail.send", schema); codeOf(err) != problem.SchemaMismatch || !strings.Contains(messagesOf(err), old.ID) {
		t.Errorf("a job waits that does not fit: %v", err)
	}
	made, err := first.ForceType(ctx, "mail.send", schema)
	if err != nil || made.Version != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := first.Submit(ctx, mail(`{"n":6}`)); codeOf(err) != problem.SchemaMismatch || pointersOf(err) != "payload payload/n" {
		t.Errorf("where it was set: %v", err)
	}
	stack.Eventually(t, time.Minute, "the other gateway knows the type", func() bool {
		_, err := second.Submit(ctx, mail(`{"n":6}`))
		return codeOf(err) == problem.SchemaMismatch
	})
	again, err := second.Submit(ctx, mail(`{"n":7}`), keyed("k"))
	if err != nil || again.ID != old.ID {
		t.Errorf("a repeat of what was accepted: %+v, %v", again.JobSummary, err)
	}
	job, err := second.Submit(ctx, mail(`{"to":"x"}`))
	if err != nil || job.Queue != "mails" || job.Priority != 8 || job.MaxAttempts != 7 {
		t.Errorf("%+v, %v", job.JobSummary, err)
	}
	batch, err := second.SubmitBatch(ctx, api.BatchRequest{Jobs: []api.SubmitRequest{mail(`{"to":"x"}`), mail(`{"to":7}`), {Type: "another"}}})
	if err != nil || batch.Accepted != 2 || batch.Results[1].Status != http.StatusUnprocessableEntity || batch.Results[1].Problem.Errors[0].Field != "jobs[1].payload/to" {
		t.Errorf("%+v, %v", batch, err)
	}
	if _, err := second.SubmitBatch(ctx, api.BatchRequest{Atomic: true, Jobs: []api.SubmitRequest{mail(`{"to":"x"}`), mail(`{"to":7}`)}}, keyed("a")); codeOf(err) != problem.SchemaMismatch {
		t.Errorf("an atomic batch: %v", err)
	}
	// another tenant has no such type
	if _, err := on(t, c, 0, other.Key).Submit(ctx, mail(`7`)); err != nil {
		t.Error(err)
	}
	if _, err := on(t, c, 0, other.Key).Type(ctx, "mail.send"); codeOf(err) != problem.NotFound {
		t.Errorf("another tenant reads it: %v", err)
	}
	checksResults(t, first, second)
	if err := first.DeleteType(ctx, "mail.send"); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the other gateway knows that it is gone", func() bool {
		_, err := second.Submit(ctx, mail(`7`))
		return err == nil
	})
}

// The schema that jobschema makes of a struct: what the struct marshals to is taken, what it cannot be is not.
func TestATypeFromAGoStruct(t *testing.T) {
	t.Parallel()
	type letter struct {
		To       string            `json:"to"                jsonschema:"the address"`
		Copies   []string          `json:"copies,omitempty"`
		Template *string           `json:"template,omitzero"`
		At       time.Time         `json:"at,omitzero"`
		Values   map[string]string `json:"values,omitempty"`
		Size     int64             `json:"size,omitzero"`
		Raw      json.RawMessage   `json:"raw,omitempty"`
	}
	c := stack.SharedCluster(t)
	owner := c.NewTenant(t, "go-typed")
	gateway := on(t, c, 0, owner.Key)
	schema, err := jobschema.For[letter]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.PutType(t.Context(), "letter", api.JobTypeRequest{PayloadSchema: schema}); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	submit := func(payload []byte) error {
		_, err := gateway.Submit(t.Context(), api.SubmitRequest{Type: "letter", Payload: payload})
		return err
	}
	for _, value := range []letter{
		{To: "ada@example.com"},
		{To: "ada@example.com", Copies: []string{"a"}, Template: new("welcome"), At: time.Now(), Values: map[string]string{"a": "b"}, Size: 1 << 60, Raw: json.RawMessage(`[1]`)},
	} {
		sent, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := submit(sent); err != nil {
			t.Errorf("%s: %v; %s", sent, err, schema)
		}
	}
	for _, sent := range []string{`{}`, `{"to":1}`, `{"to":"a","size":1.5}`, `{"to":"a","more":1}`, `{"to":"a","copies":"b"}`, `null`} {
		if err := submit([]byte(sent)); codeOf(err) != problem.SchemaMismatch {
			t.Errorf("%s fits %s: %v", sent, schema, err)
		}
	}
}

// checksResults sets a result's schema in one core, and completes in the other.
func checksResults(t *testing.T, first, second *client.Client) {
	t.Helper()
	ctx := t.Context()
	if _, err := first.PutType(ctx, "hash", api.JobTypeRequest{ResultSchema: json.RawMessage(`{"required":["sha256"]}`), CheckResults: true}); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the other core checks results", func() bool {
		stack.Submit(t, second, api.SubmitRequest{Type: "hash", Queue: "hashes"})
		claimed := stack.ClaimOne(t, second, "w", "hashes")
		lease := api.CompleteRequest{LeaseToken: claimed.LeaseToken, Result: json.RawMessage(`{}`)}
		_, err := second.Complete(ctx, claimed.ID, lease)
		if codeOf(err) != problem.SchemaMismatch {
			return false
		}
		if pointersOf(err) != "result" {
			t.Errorf("%v", err)
		}
		lease.Result = json.RawMessage(`{"sha256":"x"}`)
		if done, err := second.Complete(ctx, claimed.ID, lease); err != nil || done.State != api.StateCompleted {
			t.Errorf("with a result that fits: %+v, %v", done, err)
		}
		return true
	})
}

// A tenant whose checks are costly does not keep another from submitting: its submits run meanwhile.
func TestAHostileSchemaHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	hostile, good := c.NewTenant(t, "hostile"), c.NewTenant(t, "good")
	bad, fine := on(t, c, 0, hostile.Key), on(t, c, 0, good.Key)
	ctx := t.Context()
	if _, err := bad.PutType(ctx, "t", api.JobTypeRequest{PayloadSchema: json.RawMessage(
		`{"not":{"$ref":"#/$defs/t"},"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"},"contains":{"$ref":"#/$defs/t"}}}}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := fine.PutType(ctx, "t", api.JobTypeRequest{PayloadSchema: json.RawMessage(`{"type":"object"}`)}); err != nil {
		t.Fatal(err)
	}
	payload := strings.Repeat("[", 28) + "1" + strings.Repeat("]", 28)
	var group sync.WaitGroup
	under := make(chan struct{}, 100)
	for range 3 {
		group.Go(func() {
			under <- struct{}{}
			status, text := stack.Call(t, http.MethodPost, c.Gateways[0].URL+"/v1/jobs", hostile.Key, []byte(`{"type":"t","payload":`+payload+`}`))
			if status != http.StatusUnprocessableEntity && status != http.StatusServiceUnavailable {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	for range 3 {
		<-under
	}
	for range 20 {
		if _, err := fine.Submit(ctx, api.SubmitRequest{Type: "t", Payload: json.RawMessage(`{}`)}); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
}
