package sample

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
)

// write makes files below a fresh folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func names(documents []Document) string {
	var all []string
	for _, document := range documents {
		all = append(all, document.Name)
	}
	return strings.Join(all, " ")
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	project := map[string]string{"go.work": "", "cmd/go.mod": "", "core/x/y.go": ""}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for _, files := range []map[string]string{project, more} {
			maps.Copy(all, files)
		}
		return all
	}
	for name, test := range map[string]struct {
		files map[string]string
		start string
		want  string
	}{
		"a checkout": {with(map[string]string{
			"README.md": "r", "LICENSE": "l", "NOTES.md": "n", "api-docs/b.md": "b", "api-docs/decisions/a.md": "a", "api-docs/c.json": "{}",
		}), "core/x", "README.md LICENSE api-docs/b.md api-docs/decisions/a.md"},
		"a checkout without documents": {project, ".", "tour.md"},
		"somebody else's workspace":    {map[string]string{"go.work": "", "README.md": "theirs"}, ".", "tour.md"},
		"no checkout":                  {map[string]string{"README.md": "theirs"}, ".", "tour.md"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents, err := Documents(filepath.Join(write(t, test.files), test.start))
			if err != nil || names(documents) != test.want {
				t.Errorf("Documents = %s, %v, want %s", names(documents), err, test.want)
			}
		})
	}
}

func TestDocumentsOfThisCheckout(t *testing.T) {
	t.Parallel()
	documents, err := Documents(".")
	if err != nil || !strings.Contains(names(documents), "LICENSE") {
		t.Fatalf("Documents = %s, %v", names(documents), err)
	}
}

func TestLongDocumentsAreCutOnARune(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"go.work": "", "cmd/go.mod": "", "LICENSE": "x" + strings.Repeat("é", maxDocument)})
	documents, err := Documents(root)
	if err != nil {
		t.Fatal(err)
	}
	if text := documents[0].Text; len(text) != maxDocument-1 || !utf8.ValidString(text) {
		t.Errorf("cut to %d bytes", len(text))
	}
}

func TestDemoJobsAreAccepted(t *testing.T) {
	t.Parallel()
	documents := []Document{{"quotes.md", strings.Repeat(`"`, maxDocument)}, {"tags.md", strings.Repeat("<", maxDocument)}}
	for range 20 {
		documents = append(documents, Document{"tour.md", tour})
	}
	jobs := DemoJobs(documents)
	count := map[string]int{}
	for i, job := range jobs {
		count[job.Type]++
		if fields := job.Validate("", time.Now()); len(fields) > 0 || job.Queue != api.DefaultQueue {
			t.Errorf("job %d (%s, queue %s) is refused: %v", i, job.Type, job.Queue, fields)
		}
	}
	if count[TypeTextStats] != 12 || count[TypeSHA256] != 2 || count[TypeFlaky] != 2 {
		t.Errorf("the jobs are %v", count)
	}
	if len(jobs[1].Payload) < maxDocument {
		t.Errorf("a document that fits was cut to %d bytes", len(jobs[1].Payload))
	}
	if dies := jobs[len(jobs)-1]; *dies.MaxAttempts != 2 || *dies.Retry.BaseMS != 1000 {
		t.Errorf("the job that dies is %+v", dies)
	}
}
