package jobs_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

func utf16Of(order binary.AppendByteOrder, text string) string {
	var made []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		made = order.AppendUint16(made, unit)
	}
	return string(made)
}

// Files as Windows' editors and PowerShell store them: a byte-order mark is no part of the text, and UTF-16 is named.
func TestFilesOfOtherEditors(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	folder := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(folder, "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	workflow := `{"jobs":[{"ref":"a","type":"x","queue":"` + queue + `"}]}`
	for name, c := range map[string]struct {
		text string
		args func(file string) []string
	}{
		"a payload":  {`{"a":1}`, func(file string) []string { return []string{"submit", "mail", "-q", queue, "--data", "@" + file} }},
		"jobs":       {`{"type":"mail","queue":"` + queue + `"}` + "\n", func(file string) []string { return []string{"submit", "--file", file} }},
		"a schema":   {`{"type":"object"}`, func(file string) []string { return []string{"type", "set", "boms", "--payload-schema", "@" + file} }},
		"a workflow": {workflow, func(file string) []string { return []string{"workflow", "submit", file} }},
		"a schedule": {`{"a":1}`, func(file string) []string {
			return []string{"schedule", "set", queue, "--type", "x", "-q", queue, "--every", "1h", "--data", "@" + file}
		}},
	} {
		f.Want(0, nil, c.args(write(c.text))...)
		f.Want(0, nil, c.args(write("\ufeff"+c.text))...)
		for _, other := range []string{utf16Of(binary.LittleEndian, c.text), utf16Of(binary.LittleEndian, "\ufeff"+c.text), utf16Of(binary.BigEndian, "\ufeff"+c.text)} {
			if got := f.Want(2, []string{"is UTF-16"}, c.args(write(other))...); strings.Contains(got.Err, "invalid character") {
				t.Errorf("%s: %s", name, got.Err)
			}
		}
	}
}
