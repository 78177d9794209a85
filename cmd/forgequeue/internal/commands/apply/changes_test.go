package apply

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestASecretWhoseAnswerWasLostIsSaid(t *testing.T) {
	// The server has made the object at the first try, whose answer was lost: the second one has no secret.
	lost := func(context.Context, *client.Client, string, settings, settings) (*string, error) { return nil, nil }
	push := func(url string, secret *string) settings {
		return settings{request: api.QueueRequest{Push: &api.PushRequest{URL: url, Secret: secret}}}
	}
	for name, one := range map[string]struct {
		change change
		want   string
	}{
		"webhook":           {change{Kind: "webhook", Action: create, to: settings{request: api.WebhookRequest{}}}, "forgequeue webhook rotate-secret x"},
		"webhook again":     {change{Kind: "webhook", Action: update, to: settings{request: api.WebhookRequest{}}}, ""},
		"queue":             {change{Kind: "queue", Action: create, to: push("https://example.com", nil)}, "forgequeue queue set x --new-push-secret"},
		"queue now pushed":  {change{Kind: "queue", Action: update, to: push("https://example.com", nil), there: settings{request: api.QueueRequest{}}}, "--new-push-secret"},
		"queue pushed":      {change{Kind: "queue", Action: update, to: push("https://example.com", nil), there: push("https://example.com", nil)}, ""},
		"queue with one":    {change{Kind: "queue", Action: create, to: push("https://example.com", new("s"))}, ""},
		"queue of a broker": {change{Kind: "queue", Action: create, to: push("amqps://example.com/exchange/key", nil)}, ""},
		"queue of pulls":    {change{Kind: "queue", Action: create, to: settings{request: api.QueueRequest{}}}, ""},
	} {
		var said bytes.Buffer
		r := run{screen: &cli.Session{Screen: &cli.Screen{Err: &said}}}
		one.change.Name, one.change.kind = "x", &kind{put: lost}
		if err := r.one(t.Context(), &one.change); err != nil || (one.want == "") != (said.Len() == 0) || !strings.Contains(said.String(), one.want) {
			t.Errorf("%s: %v %q, want %q", name, err, said.String(), one.want)
		}
	}
}

func TestARefusedDeletionHasNoLine(t *testing.T) {
	var said bytes.Buffer
	r := run{file: &file{name: "mail.yaml"}, screen: &cli.Session{Screen: &cli.Screen{Err: &said}}}
	p := problem.Invalid(problem.FieldError{Field: "name", Message: "is in use"})
	r.report(&change{Kind: "queue", Name: "q", Action: removal}, p)
	if !strings.HasPrefix(said.String(), "mail.yaml: queue q: name: is in use") {
		t.Error(said.String())
	}
}
