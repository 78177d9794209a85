package identity

import (
	"errors"
	"testing"
	"time"
	"unsafe"
)

// setBack is the time that a clock would tell that was set back: less by the wall,
// the same by the monotonic clock. No function of time makes one.
func setBack(at time.Time, seconds uint64) time.Time {
	const secondsFrom = 30 // the bit, in a Time with a monotonic reading
	*(*uint64)(unsafe.Pointer(&at)) -= seconds << secondsFrom
	return at
}

// A clock that is set back by more than the process's age does not make all that is
// signed by it from before the process.
func TestAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	secret, body := []byte("secret"), []byte("{}")
	began := time.Now()
	later := began.Add(time.Minute)
	now := setBack(later, 3600)
	if now.Sub(began) != time.Minute || later.Unix()-now.Unix() != 3600 {
		t.Fatalf("a time is made otherwise: %v, %v", began, now)
	}
	verifier := Verifier{Secrets: [][]byte{secret}, Window: 30 * time.Second, Seen: NewSeen(began)}
	verify := func(at time.Time) error {
		return verifier.Verify(Sign(secret, "POST", "/p", body, at), "POST", "/p", body, now)
	}
	if err := verify(now); err != nil {
		t.Errorf("signed now: %v", err)
	}
	if err := verify(now); !errors.Is(err, ErrReplayed) {
		t.Errorf("again: %v", err)
	}
	now = setBack(began.Add(time.Second), 3600)
	if err := verify(now.Add(-2 * time.Second)); !errors.Is(err, ErrExpired) {
		t.Errorf("signed before the process began: %v", err)
	}
}
