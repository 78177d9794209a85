package sample

import (
	"bytes"
	"encoding/json"

	"github.com/forgequeue/forgequeue/shared/api"
)

// maxDemoDocuments bounds how many documents become jobs.
const maxDemoDocuments = 12

// DemoJobs are the first jobs of a new server: a text.stats for each document, two
// hash.sha256, a flaky that waits for its second attempt, and one that is a dead
// letter within seconds.
func DemoJobs(documents []Document) []api.SubmitRequest {
	var jobs []api.SubmitRequest
	for _, document := range documents[:min(len(documents), maxDemoDocuments)] {
		jobs = append(jobs, job(TypeTextStats, fitting(document)))
	}
	text, encoded := "ForgeQueue", "AAECAwQFBgc=" // the bytes 0 to 7
	jobs = append(jobs,
		job(TypeSHA256, asJSON(HashInput{Text: &text})),
		job(TypeSHA256, asJSON(HashInput{Base64: &encoded})),
	)
	recovers := job(TypeFlaky, asJSON(FlakyInput{Fails: 1, Message: "the first attempt always fails; look again in a few seconds"}))
	recovers.Retry = &api.RetryRequest{BaseMS: new(int64(5000))}
	dies := job(TypeFlaky, asJSON(FlakyInput{Fails: api.MaxAttempts, Message: "this one never succeeds: it ends as a dead letter"}))
	dies.MaxAttempts = new(2)
	dies.Retry = &api.RetryRequest{BaseMS: new(int64(1000))}
	return append(jobs, recovers, dies)
}

func job(jobType string, payload json.RawMessage) api.SubmitRequest {
	return api.SubmitRequest{Type: jobType, Queue: api.DefaultQueue, Payload: payload, Metadata: map[string]string{"from": "demo"}}
}

// fitting is the document as a payload. A text full of characters that JSON
// escapes is cut until it fits.
func fitting(document Document) json.RawMessage {
	for {
		payload := asJSON(document)
		if len(payload) <= api.MaxPayload || document.Text == "" {
			return payload
		}
		document.Text = cut(document.Text, len(document.Text)/2)
	}
}

// asJSON does not escape <, > and &: documents have many, and each would take six
// bytes of the payload.
func asJSON(value any) json.RawMessage {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // strings and integers only: it cannot fail
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
