package memory

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
)

func TestCgroupLimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"version 2":                     {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "536870912\n"}, 512 << 20},
		"version 2, none":               {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"version 2, of the group above": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 1 << 20},
		"version 2, in a container":     {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"version 2, path not mounted":   {map[string]string{"proc/self/cgroup": "0::/docker/x\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"version 1":                     {map[string]string{"proc/self/cgroup": "5:cpu:/\n4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4096\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4096},
		"version 1, none":               {map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"version 1, path not mounted":   {map[string]string{"proc/self/cgroup": "4:hugetlb,memory:/docker/x\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, 4096},
		"no cgroups":                    {nil, 0},
		"nonsense":                      {map[string]string{"proc/self/cgroup": "::\n0::/\nx", "sys/fs/cgroup/memory.max": "-1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for file, text := range test.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := cgroupLimit(root); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// Whatever length is declared, memory is taken for what has come.
func TestReadTakesMemoryAsItComes(t *testing.T) {
	t.Parallel()
	for _, sent := range []int{0, 1, 100, firstPart - 1, firstPart, firstPart + 1, 100_000} {
		for _, declared := range []int64{-1, int64(sent), 8 << 20} {
			budget := NewBudget(Options{Most: 64 << 20, Factor: 4})
			hold := budget.Hold("a", false)
			body := strings.Repeat("x", sent)
			got, err := hold.Read(nil, iotest.OneByteReader(strings.NewReader(body)), declared)
			if err != nil || string(got) != body {
				t.Fatalf("%d bytes of %d: %d, %v", sent, declared, len(got), err)
			}
			most := max(2*sent, firstPart)
			if declared == int64(sent) {
				most = sent + 1
			}
			if cap(got) > most || budget.Used() > 4*int64(most) || budget.Used() < 4*int64(sent) {
				t.Errorf("%d bytes of %d: capacity %d, %d taken", sent, declared, cap(got), budget.Used())
			}
			hold.Release()
			hold.Release()
			if budget.Used() != 0 || len(budget.by) != 0 {
				t.Errorf("%d are held after the release, by %v", budget.Used(), budget.by)
			}
		}
	}
}

func TestReadUsesTheBufferItIsGiven(t *testing.T) {
	t.Parallel()
	hold := NewBudget(Options{Most: 1 << 20}).Hold("a", false)
	buffer := append(make([]byte, 0, 64<<10), 'x')
	got, err := hold.Read(buffer, strings.NewReader("yz"), 3)
	if err != nil || string(got) != "xyz" || &got[0] != &buffer[0] {
		t.Errorf("%q, %v", got, err)
	}
	failure := errors.New("gone")
	if got, err = hold.Read(nil, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(failure)), 100); !errors.Is(err, failure) || string(got) != "half" {
		t.Errorf("%q, %v", got, err)
	}
}

// A body that is refused for memory is not read on, one owner cannot take what
// is others', nor what is kept for what is urgent.
func TestShares(t *testing.T) {
	t.Parallel()
	const kilo = 1 << 10
	budget := NewBudget(Options{Most: 100 * kilo, Share: 40 * kilo})
	budget.Hold("z", false).Release()
	take := func(owner string, urgent bool, size int, want error) *Hold {
		t.Helper()
		hold := budget.Hold(owner, urgent)
		body := bytes.NewReader(make([]byte, size))
		if _, err := hold.Read(nil, body, int64(size)); !errors.Is(err, want) {
			t.Fatalf("%s, %d bytes: %v, want %v", owner, size, err, want)
		}
		if want != nil && body.Len() == 0 {
			t.Error("the body was read although there was no memory for it")
		}
		if want != nil {
			hold.Release()
		}
		return hold
	}
	large := take("a", false, 60*kilo, nil) // more than its share, but the first of it
	take("a", false, 8*kilo, ErrShare)
	take("b", false, 30*kilo, ErrFull) // only a fifth is left
	urgent := take("b", true, 30*kilo, nil)
	large.Release()
	take("a", false, 20*kilo, nil).Release()
	urgent.Release()
	first := take("a", false, 30*kilo, nil)
	take("a", false, 8*kilo, nil)
	take("a", false, 8*kilo, ErrShare)
	take("c", true, 20*kilo, nil)
	take("c", false, 8*kilo, ErrShare) // its share is less while others have theirs
	take("d", false, 30*kilo, ErrFull)
	first.Release()
	take("a", false, 20*kilo, nil)
}

// Of many requests that come at once, and do not fit together, one always gets to its end.
func TestOneOfManyGetsThrough(t *testing.T) {
	t.Parallel()
	const size, most = 10_000, 15_000
	budget := NewBudget(Options{Most: 10 * most, Share: most})
	served := 0
	var holds []*Hold
	for range 16 {
		holds = append(holds, budget.Hold("a", false))
	}
	for step := int64(1000); step <= size; step += 1000 { // all grow side by side
		holds = slices.DeleteFunc(holds, func(h *Hold) bool {
			err := h.cover(step)
			if err != nil {
				h.Release()
			}
			return err != nil
		})
	}
	for _, h := range holds {
		served++
		h.Release()
	}
	if served == 0 || budget.Used() != 0 {
		t.Errorf("%d were served, %d are held", served, budget.Used())
	}
}

func TestOneAloneIsLetIn(t *testing.T) {
	t.Parallel()
	hold := NewBudget(Options{Most: 10}).Hold("a", false)
	if got, err := hold.Read(nil, strings.NewReader(strings.Repeat("x", 1000)), -1); err != nil || len(got) != 1000 {
		t.Errorf("%d, %v", len(got), err)
	}
	(*Hold)(nil).Release()
}

func BenchmarkReadSmallBody(b *testing.B) {
	budget := NewBudget(Options{Most: 1 << 30, Share: 1 << 28, Factor: 4})
	body := []byte(strings.Repeat("x", 512))
	b.RunParallel(func(p *testing.PB) {
		buffer, reader := make([]byte, 0, firstPart), bytes.NewReader(nil)
		for p.Next() {
			reader.Reset(body)
			hold := budget.Hold("tenant", false)
			if _, err := hold.Read(buffer, reader, int64(len(body))); err != nil {
				b.Fatal(err)
			}
			hold.Release()
		}
	})
}
