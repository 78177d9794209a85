package memory

import (
	"context"
	"errors"
	"testing"
	"time"
)

const guard = time.Minute

// waits waits until so many of an owner's wait.
func waits(t *testing.T, b *Budget, owner string, want int) {
	t.Helper()
	for end := time.Now().Add(guard); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		got := 0
		if own := b.by[owner]; own != nil {
			got = len(own.waiting)
		}
		b.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait, want %d", got, want)
		}
	}
}

// taking takes in the background.
func taking(ctx context.Context, b *Budget, owner string, bytes int64) (*Hold, <-chan error) {
	hold, ended := b.Hold(owner, false), make(chan error, 1)
	go func() { ended <- hold.Take(ctx, bytes, guard) }()
	return hold, ended
}

func TestTakeWaitsForItsOwnersRoom(t *testing.T) {
	t.Parallel()
	b := NewBudget(Options{Most: 100, Share: 10, Factor: 4})
	first := b.Hold("a", false)
	if err := first.Take(t.Context(), 8, guard); err != nil {
		t.Fatal(err)
	}
	second, came := taking(t.Context(), b, "a", 8)
	waits(t, b, "a", 1)
	third, cameToo := taking(t.Context(), b, "a", 1) // there would be room, but not before the second
	waits(t, b, "a", 2)
	if err := b.Hold("b", false).Take(t.Context(), 8, guard); err != nil {
		t.Errorf("another owner: %v", err)
	}
	first.Release()
	if err := errors.Join(<-came, <-cameToo); err != nil {
		t.Error(err)
	}
	if got := b.Used(); got != 17 {
		t.Errorf("%d are held", got)
	}
	second.Release()
	third.Release()
	if err := first.Take(t.Context(), 8, guard); err != nil || b.Used() != 8 {
		t.Errorf("after its release: %v, %d are held", err, b.Used())
	}
}

func TestTakeEnds(t *testing.T) {
	t.Parallel()
	b := NewBudget(Options{Most: 100, Share: 10})
	first := b.Hold("a", false)
	if err := first.Take(t.Context(), 8, guard); err != nil {
		t.Fatal(err)
	}
	if err := b.Hold("a", false).Take(t.Context(), 8, time.Millisecond); !errors.Is(err, ErrShare) {
		t.Errorf("without patience: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	_, large := taking(ctx, b, "a", 8)
	waits(t, b, "a", 1)
	_, small := taking(t.Context(), b, "a", 1)
	waits(t, b, "a", 2)
	leave()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves: %v", err)
	}
	if err := <-small; err != nil {
		t.Errorf("who waited behind: %v", err)
	}
	b.Hold("a", false).Force(50)
	if got := b.Used(); got != 59 {
		t.Errorf("%d are held", got)
	}
	if err := b.Hold("c", false).Take(t.Context(), 30, guard); !errors.Is(err, ErrFull) {
		t.Errorf("beyond all: %v", err)
	}
	(*Hold)(nil).Force(1)
	if err := (*Hold)(nil).Take(t.Context(), 1, guard); err != nil {
		t.Error(err)
	}
}

// Owners who all take what they can leave room for one who comes later.
func TestManyOwnersLeaveRoom(t *testing.T) {
	t.Parallel()
	b := NewBudget(Options{Most: 1000, Share: 250})
	take := func(owner string) (held int) {
		for ; ; held++ {
			if err := b.Hold(owner, false).Take(t.Context(), 10, 0); err != nil {
				if !errors.Is(err, ErrShare) {
					t.Errorf("%s: %v", owner, err)
				}
				return held
			}
		}
	}
	if alone := take("a"); alone != 25 {
		t.Errorf("an owner alone has %d", alone)
	}
	for _, owner := range []string{"b", "c", "d", "e"} {
		take(owner)
	}
	if late := take("late"); late < 3 || b.Used() > 800 {
		t.Errorf("who comes last has %d; %d are held", late, b.Used())
	}
}
