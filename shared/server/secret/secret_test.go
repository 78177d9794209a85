package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/secret"
)

func TestNothingShowsIt(t *testing.T) {
	t.Parallel()
	const mark = "hunter2"
	type config struct{ Password secret.Text }
	value := config{Password: mark}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "password", value.Password, "config", value)
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		fmt.Sprint(value), fmt.Sprintf("%+v", value), fmt.Sprintf("%#v", value), value.Password.String(), string(encoded), log.String(),
	} {
		if strings.Contains(shown, mark) {
			t.Errorf("the secret is in %q", shown)
		}
	}
	if value.Password.Reveal() != mark || secret.Text("").String() != "" {
		t.Error("Reveal gives the text, and nothing is shown as nothing")
	}
}
