package memory

import (
	"testing"
	"testing/fstest"
)

func TestTheShareOfAMachine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"MemTotal:        3984588 kB\nMemFree: 1 kB\n": mostShare, "MemTotal: 1000000 kB\n": leastShare, "MemTotal: 64000000 kB\n": mostShare,
		"": mostShare, "MemTotal: x kB\n": mostShare,
	} {
		if got := shareOf(machine(fstest.MapFS{"proc/meminfo": {Data: []byte(text)}})); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := shareOf(machine(fstest.MapFS{})); got != mostShare {
		t.Errorf("a machine that does not say: %d", got)
	}
}
