package identity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/identity"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	current := []byte(strings.Repeat("c", identity.MinSecretBytes))
	previous := []byte(strings.Repeat("p", identity.MinSecretBytes))
	stranger := []byte(strings.Repeat("s", identity.MinSecretBytes))
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	verifier := identity.Verifier{Secrets: [][]byte{current, previous}, Window: 30 * time.Second}
	body := []byte(`{"items":[]}`)
	good := identity.Sign(current, "POST", "/internal/v1/claim-jobs", body, at)

	tests := []struct {
		name, assertion, method, path string
		body                          []byte
		now                           time.Time
		want                          error
	}{
		{"good", good, "POST", "/internal/v1/claim-jobs", body, at, nil},
		{"at the edge", good, "POST", "/internal/v1/claim-jobs", body, at.Add(30 * time.Second), nil},
		{"previous secret", identity.Sign(previous, "POST", "/p", body, at), "POST", "/p", body, at, nil},
		{"late", good, "POST", "/internal/v1/claim-jobs", body, at.Add(31 * time.Second), identity.ErrExpired},
		{"early", good, "POST", "/internal/v1/claim-jobs", body, at.Add(-31 * time.Second), identity.ErrExpired},
		{"other secret", identity.Sign(stranger, "POST", "/p", body, at), "POST", "/p", body, at, identity.ErrUnsigned},
		{"other secret and late", identity.Sign(stranger, "POST", "/p", body, at), "POST", "/p", body, at.Add(time.Hour), identity.ErrUnsigned},
		{"other method", good, "PUT", "/internal/v1/claim-jobs", body, at, identity.ErrUnsigned},
		{"other path", good, "POST", "/internal/v1/outcomes", body, at, identity.ErrUnsigned},
		{"other body", good, "POST", "/internal/v1/claim-jobs", []byte(`{"items":[1]}`), at, identity.ErrUnsigned},
		{"other time", strings.Replace(good, "t=1", "t=2", 1), "POST", "/internal/v1/claim-jobs", body, at, identity.ErrUnsigned},
		{"cut", good[:len(good)-2], "POST", "/internal/v1/claim-jobs", body, at, identity.ErrUnsigned},
		{"empty", "", "POST", "/internal/v1/claim-jobs", body, at, identity.ErrUnsigned},
		{"not hex", "v1 t=1 s=zz", "POST", "/internal/v1/claim-jobs", body, at, identity.ErrUnsigned},
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

// A request is taken once, and refused afterwards for as long as its time is good.
func TestReplay(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("c", identity.MinSecretBytes))
	began := time.Date(2026, 11, 20, 12, 0, 0, 500_000_000, time.UTC)
	verifier := identity.Verifier{Secrets: [][]byte{secret}, Window: 30 * time.Second, Seen: identity.NewSeen(began)}
	verify := func(body string, at, now time.Time) error {
		assertion := identity.Sign(secret, "POST", "/p", []byte(body), at)
		return verifier.Verify(assertion, "POST", "/p", []byte(body), now)
	}
	if err := verify("early", began.Add(-time.Millisecond), began); !errors.Is(err, identity.ErrExpired) {
		t.Errorf("from before the process: %v", err)
	}
	for i := range 200 { // seconds: what is remembered is forgotten, what is new is taken
		now := began.Add(time.Duration(i) * time.Second)
		for _, ahead := range []time.Duration{0, 29 * time.Second, -29 * time.Second} {
			at, want := now.Add(ahead), error(nil)
			if at.Before(began) {
				want = identity.ErrExpired
			}
			body := ahead.String()
			if err := verify(body, at, now); !errors.Is(err, want) {
				t.Fatalf("second %d, %v ahead: %v, want %v", i, ahead, err, want)
			}
			if want != nil {
				continue
			}
			for _, later := range []time.Duration{0, time.Second, 30 * time.Second} {
				want := identity.ErrReplayed
				if now.Add(later).Sub(at) > 30*time.Second {
					want = identity.ErrExpired
				}
				if later == 30*time.Second && i < 199 {
					continue // its clock would be ahead of the next second's
				}
				if err := verify(body, at, now.Add(later)); !errors.Is(err, want) {
					t.Fatalf("second %d, %v ahead, again %v later: %v, want %v", i, ahead, later, err, want)
				}
			}
		}
	}
}
