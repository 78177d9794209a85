package sample

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/worker"
	"github.com/forgequeue/forgequeue/shared/worker/workertest"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        nil,
		"Hello, hello WORLD":      {"hello", "hello", "world"},
		"don't don’t DON'T":       {"don't", "don't", "don't"},
		"'quoted' dogs' o''clock": {"quoted", "dogs", "o", "clock"},
		"rock 'n' roll":           {"rock", "n", "roll"},
		"a_b-c.d/e":               {"a", "b", "c", "d", "e"},
		"IPv6 2026 ٣":             {"ipv6", "2026", "٣"},
		"Straße ÉCOLE École":      {"straße", "école", "école"}, // composed, and é as e with a mark
		"हिन्दी भाषा":             {"हिन्दी", "भाषा"},
		"日本語、テスト":                 {"日本語", "テスト"},
		"\xff\xfe ok":             {"ok"},
	} {
		got := words(text)
		if !slices.EqualFunc(got, want, func(a, b string) bool { return fold(a) == fold(b) }) {
			t.Errorf("words(%q) = %q, want %q", text, got, want)
		}
	}
}

// fold makes the two spellings of é one.
func fold(word string) string { return strings.ReplaceAll(word, "e\u0301", "é") }

func TestTextStats(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Stats{
		"":            {Top: []WordCount{}},
		"one":         {Bytes: 3, Lines: 1, Words: 1, DistinctWords: 1, Top: []WordCount{{"one", 1}}},
		"b a\nA b\nc": {Bytes: 9, Lines: 3, Words: 5, DistinctWords: 3, Top: []WordCount{{"a", 2}, {"b", 2}, {"c", 1}}},
		"x\n\n":       {Bytes: 3, Lines: 2, Words: 1, DistinctWords: 1, Top: []WordCount{{"x", 1}}},
	} {
		want.Name = "n"
		got, err := TextStats(t.Context(), &worker.Job[Document]{Payload: Document{Name: "n", Text: text}})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("TextStats(%q) = %+v, %v", text, got, err)
		}
	}
	empty, err := json.Marshal(count(Document{}))
	if err != nil || !strings.Contains(string(empty), `"top":[]`) {
		t.Errorf("of nothing the result is %s", empty)
	}
}

// TestStatsOfThisCheckout holds the counts of real documents to what must be
// true of any text.
func TestStatsOfThisCheckout(t *testing.T) {
	t.Parallel()
	documents, err := Documents(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		stats := count(document)
		all := words(document.Text)
		if stats.Words != len(all) || stats.Bytes != len(document.Text) || stats.DistinctWords > stats.Words || stats.Lines == 0 {
			t.Errorf("%s: %+v for %d words", document.Name, stats, len(all))
		}
		sorted := slices.IsSortedFunc(stats.Top, func(a, b WordCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
		})
		if len(stats.Top) != min(10, stats.DistinctWords) || !sorted {
			t.Errorf("%s: the top is %v", document.Name, stats.Top)
		}
		// Twice the text: the same words in the same order, each twice as often.
		twice := count(Document{Text: document.Text + "\n" + document.Text})
		for i, word := range twice.Top {
			if want := (WordCount{stats.Top[i].Word, 2 * stats.Top[i].Count}); word != want {
				t.Errorf("%s: twice the text has %v, want %v", document.Name, word, want)
			}
		}
		if document.Name == "LICENSE" && (stats.Top[0].Word != "the" || stats.Words < 1500) {
			t.Errorf("the licence has %d words, first of all %v", stats.Words, stats.Top[0])
		}
	}
}

func TestSHA256(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"text":""}`:             `{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","bytes":0}`,
		`{"text":"abc"}`:          `{"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","bytes":3}`,
		`{"base64":"YWJj"}`:       `{"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","bytes":3}`,
		`{}`:                      `neither "text" nor "base64"`,
		`{"text":null}`:           `neither "text" nor "base64"`,
		`{"text":"","base64":""}`: `both "text" and "base64"`,
		`{"base64":"*"}`:          `not standard base64`,
	} {
		job := &worker.Job[HashInput]{}
		if err := json.Unmarshal([]byte(payload), &job.Payload); err != nil {
			t.Fatal(err)
		}
		hash, err := SHA256(t.Context(), job)
		if err != nil {
			var typed interface{ ErrorType() string }
			if !strings.Contains(err.Error(), want) || !errors.As(err, &typed) || typed.ErrorType() != "input" {
				t.Errorf("SHA256(%s) fails with %v, want %s", payload, err, want)
			}
			// errors.Is cannot tell: a permanent error is the worker's own type.
			if again := worker.Permanent(inputError{}); reflect.TypeOf(again) != reflect.TypeOf(err) {
				t.Errorf("SHA256(%s) may be retried: %T", payload, err)
			}
			continue
		}
		if got, _ := json.Marshal(hash); string(got) != want {
			t.Errorf("SHA256(%s) = %s, want %s", payload, got, want)
		}
	}
}

func TestFlakyRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"fails":2}`:      "failed: attempt 1 fails on purpose",
		`{}`:               `completed with {"succeeded_at_attempt":1}`,
		`null`:             `completed with {"succeeded_at_attempt":1}`,
		`{"fail_times":2}`: `failed for good: the payload does not fit the handler: json: unknown field "fail_times"; flaky takes {"fails": NUMBER, "message": TEXT}`,
	} {
		if got := workertest.Run(t.Context(), Flaky, FlakyInput{}, workertest.WithPayload(payload)); got.String() != want {
			t.Errorf("%s: %v, want %s", payload, got, want)
		}
	}
}

func TestFlaky(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		attempt int
		input   FlakyInput
		fails   string
	}{
		{1, FlakyInput{}, ""},
		{1, FlakyInput{Fails: 2, Message: "m"}, "m"},
		{2, FlakyInput{Fails: 2}, "attempt 2 fails on purpose"},
		{3, FlakyInput{Fails: 2}, ""},
		{1, FlakyInput{Fails: -1}, ""},
	} {
		result, err := Flaky(t.Context(), &worker.Job[FlakyInput]{Info: worker.Info{Attempt: test.attempt}, Payload: test.input})
		switch {
		case test.fails == "" && (err != nil || result.SucceededAtAttempt != test.attempt):
			t.Errorf("attempt %d of %+v = %+v, %v", test.attempt, test.input, result, err)
		case test.fails != "" && (err == nil || err.Error() != test.fails || err.(interface{ ErrorType() string }).ErrorType() != "flaky"):
			t.Errorf("attempt %d of %+v fails with %v", test.attempt, test.input, err)
		}
	}
}
