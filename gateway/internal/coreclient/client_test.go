package coreclient_test

import (
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, url, secret string) *coreclient.Client {
	t.Helper()
	c, err := coreclient.New(coreclient.Options{URL: url, Secret: []byte(secret), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("s", 32)
	for _, given := range [][2]string{
		{"", good},
		{"core:8081", good},
		{"ftp://core", good},
		{"http://", good},
		{"http://core/internal", good},
		{"http://core?x=1", good},
		{"http://u:p@core", good},
		{"http://core", good[1:]},
	} {
		if _, err := coreclient.New(coreclient.Options{URL: given[0], Secret: []byte(given[1])}); err == nil {
			t.Errorf("%q with a secret of %d bytes was taken", given[0], len(given[1]))
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}
