package secret_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/secret"
)

type settings struct {
	Password secret.Text `env:"PASSWORD"`
	Token    secret.Text `env:"TOKEN"`
	Place    string      `env:"PLACE"`
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecretsComeFromFiles(t *testing.T) {
	t.Parallel()
	given := map[string]string{"PASSWORD_FILE": written(t, " hunter2\r\n"), "TOKEN": "t", "PLACE_FILE": "/no/such", "PLACE": "here"}
	read, err := secret.WithFiles(given, reflect.TypeFor[settings]())
	if err != nil {
		t.Fatal(err)
	}
	if read["PASSWORD"] != " hunter2" || read["TOKEN"] != "t" || read["PLACE"] != "here" {
		t.Errorf("read %v", read)
	}
	for text, want := range map[string]string{"\ufeffhunter2\r\n": "hunter2", "h\x00\n\x00": "", "\xff\xfeh\x00": ""} {
		got, err := secret.FromFile(written(t, text))
		if got.Reveal() != want || (want == "") != (err != nil && strings.Contains(err.Error(), "is UTF-16")) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, changed := given["PASSWORD"]; changed {
		t.Error("the settings that were given have changed")
	}
}

func TestSecretFilesThatAreNoGood(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]map[string]string{
		"not both":  {"PASSWORD": "hunter2", "PASSWORD_FILE": written(t, "hunter3")},
		"no such":   {"PASSWORD_FILE": "/no/such/file"},
		"is empty":  {"PASSWORD_FILE": written(t, "\n")},
		"more than": {"PASSWORD_FILE": written(t, strings.Repeat("hunter", 20_000))},
	} {
		given["TOKEN_FILE"] = "/nor/this"
		_, err := secret.WithFiles(given, reflect.TypeFor[settings]())
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "PASSWORD_FILE") ||
			!strings.Contains(err.Error(), "TOKEN_FILE") || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
