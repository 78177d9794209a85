// Package memory keeps a service within its memory limit: Tune sets the cgroup's limit
// in the garbage collector, and a Budget bounds what requests may take at once.
package memory

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// softPercent of the cgroup's limit is where the garbage collector begins to work
// harder. The rest is for what it does not count: the program's own pages, and the
// kernel's for sockets.
const softPercent = 90

// Tune makes the cgroup's memory limit the soft limit of the Go runtime. What
// GOMEMLIMIT says in the environment stands, and without a limit nothing changes. A
// service calls it when it starts.
func Tune() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := cgroupLimit(os.DirFS("/")); limit > 0 {
		debug.SetMemoryLimit(limit / 100 * softPercent)
	}
}

// The bounds of TuneShare, in bytes.
const (
	leastShare = 512 << 20
	mostShare  = 768 << 20
)

// TuneShare is Tune for a program on somebody's own machine: without a limit it takes a quarter of the machine's memory,
// from 512 to 768 MiB.
func TuneShare() {
	Tune()
	if os.Getenv("GOMEMLIMIT") == "" && Limit() == 0 {
		debug.SetMemoryLimit(shareOf(machine(os.DirFS("/"))))
	}
}

// shareOf is the limit on a machine with so much memory; 0 is not known.
func shareOf(total int64) int64 {
	const part = 4
	if total == 0 {
		return mostShare
	}
	return min(max(total/part, leastShare), mostShare)
}

// machine is how much memory the machine has, in bytes; 0 where it does not say.
func machine(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// Limit is how many bytes this process may use: the runtime's soft limit, as
// GOMEMLIMIT or Tune have set it; 0 where there is none.
func Limit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

// cgroupLimit is the least memory limit of this process's cgroup and of those above
// it, in bytes; 0 where there is none. It knows both versions of cgroups. In a
// container the path that /proc names may lie outside of what is mounted; then the
// root of the mount is the container's own group.
func cgroupLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		// hierarchy:controllers:path
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var mount, file string
		switch {
		case parts[1] == "" && parts[0] == "0":
			mount, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			if limit := readLimit(root, path.Join(mount, group, file)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// noLimit and more is how version 1 says that there is none: the largest number of
// whole pages.
const noLimit = 1 << 60

func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
	if err != nil || limit <= 0 || limit >= noLimit {
		return 0
	}
	return limit
}
