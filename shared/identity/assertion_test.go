package identity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/identity"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	current := []byte(strings.Repeat("c", identity.MinSecretBytes))
	previous := []byte(strings.Repeat("p", identity.MinSecretBytes))
	stranger := []byte(strings.Repeat("s", identity.MinSecretBytes))
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	verifier := identity.Verifier{Secrets: [][]byte{current, previous}, Window: 30 * time.Second}
	body := []byte(`{"items":[]}`)
	good := identity.Sign(current, "POST", "/internal/v1/claims", body, at)

	tests := []struct {
		name, assertion, method, path string
		body                          []byte
		now                           time.Time
		want                          error
	}{
		{"good", good, "POST", "/internal/v1/claims", body, at, nil},
		{"at the edge", good, "POST", "/internal/v1/claims", body, at.Add(30 * time.Second), nil},
		{"previous secret", identity.Sign(previous, "POST", "/p", body, at), "POST", "/p", body, at, nil},
		{"late", good, "POST", "/internal/v1/claims", body, at.Add(31 * time.Second), identity.ErrExpired},
		{"early", good, "POST", "/internal/v1/claims", body, at.Add(-31 * time.Second), identity.ErrExpired},
		{"other secret", identity.Sign(stranger, "POST", "/p", body, at), "POST", "/p", body, at, identity.ErrUnsigned},
		{"other secret and late", identity.Sign(stranger, "POST", "/p", body, at), "POST", "/p", body, at.Add(time.Hour), identity.ErrUnsigned},
		{"other method", good, "PUT", "/internal/v1/claims", body, at, identity.ErrUnsigned},
		{"other path", good, "POST", "/internal/v1/outcomes", body, at, identity.ErrUnsigned},
		{"other body", good, "POST", "/internal/v1/claims", []byte(`{"items":[1]}`), at, identity.ErrUnsigned},
		{"other time", strings.Replace(good, "t=1", "t=2", 1), "POST", "/internal/v1/claims", body, at, identity.ErrUnsigned},
		{"cut", good[:len(good)-2], "POST", "/internal/v1/claims", body, at, identity.ErrUnsigned},
		{"empty", "", "POST", "/internal/v1/claims", body, at, identity.ErrUnsigned},
		{"not hex", "v1 t=1 s=zz", "POST", "/internal/v1/claims", body, at, identity.ErrUnsigned},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := verifier.Verify(test.assertion, test.method, test.path, test.body, test.now)
			if !errors.Is(err, test.want) {
				t.Fatalf("Verify = %v, want %v", err, test.want)
			}
		})
	}
}
