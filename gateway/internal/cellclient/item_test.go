package cellclient

import (
	"bytes"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/wirejson/wirejsontest"
)

// Whatever is submitted, the item is what encoding/json writes of it: each field, set and unset.
func TestSubmitTextIsThatOfItsType(t *testing.T) {
	t.Parallel()
	for _, item := range wirejsontest.Values[hop.Item[hop.SubmitJobsRequest]](t, 3000) {
		want, err := Encode(item)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := itemOf(&item); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v\n%s, want\n%s", err, got, want)
		}
	}
}

// Answers are read the same with and without a decoder, in whatever form they come, and what is no answer is refused.
func TestResultsAreReadAsADecoderDoes(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`{"results":[]}`,
		`{"results":[{"status":202,"value":{"id":"a"}}]}`,
		`{"results":[{"status":202,"replayed":true,"value":{"id":"a}\\\"{","b":[{}]}},{"status":409,"retry_unbatched":true},{"status":200,"value":[1,2]}]}`,
		`{"results":[{"status":404,"problem":{"code":"not_found","errors":[],"policies":[]}},{"status":200,"value":{}}]}`,
		`{"results":[{"status":200,"value":{"a":1},"problem":null}]}`,
		` { "results" : [ { "status" : 200 , "value" : { "a" : 1 } } ] } `,
		`{"results":[{"value":{"a":1},"status":200}]}`,
		`{"results":[{"status":204}]}`,
	} {
		want, wantErr := readAny([]byte(answer))
		got, err := readResults([]byte(answer))
		if err != nil || wantErr != nil || len(got) != len(want) {
			t.Fatalf("%s: %v, %v; %d results, want %d", answer, err, wantErr, len(got), len(want))
		}
		for i := range got {
			was, is := text(t, want[i]), text(t, got[i])
			if is != was {
				t.Errorf("%s: %s, want %s", answer, is, was)
			}
		}
	}
	for _, answer := range []string{
		``, `{}x`, `{"results":[{]}`, `{"results":[{"status":200,"value":{"a":1}]}`, `{"results":[{"status":200,"value":{"a":"1}}]}`,
		`{"results":[{"status":200},]}`, `{"results":[{"status":x,"value":{}}]}`, `{"results":[{"status":200,"value":{}}}]}`, `{"results":[{"status":200}{"status":200}]}`,
	} {
		if got, err := readResults([]byte(answer)); err == nil {
			t.Errorf("%s: %d results", answer, len(got))
		}
	}
}

func text(t *testing.T, result any) string {
	t.Helper()
	text, err := Encode(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
