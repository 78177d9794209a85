package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// cpuSeconds is CPU time by kind of process, in seconds: gateway, core, postgres, redis and generator (this process and
// the benches that it ran), and of the whole machine others, idle and stolen. Empty where there is no /proc.
type cpuSeconds map[string]float64

// kinds are cpuSeconds' keys, in the order in which they are printed.
var kinds = []string{"gateway", "core", "redis", "postgres", "generator", "others", "idle", "stolen"}

// ticks is the unit of /proc in a second (USER_HZ), the same on every Linux.
const ticks = 100

// cpu reads what each process has used so far.
func (s *stack) cpu() cpuSeconds {
	whole, ok := machineTime()
	if !ok {
		return nil
	}
	used := cpuSeconds{
		"gateway": processTime(s.gateway.Process.Pid), "core": processTime(s.core.Process.Pid),
		"postgres": processTime(s.m.postgres.Pid()), "generator": ownTime(),
	}
	if s.m.redis != nil {
		used["redis"] = processTime(s.m.redis.Pid())
	}
	sum := 0.0
	for _, seconds := range used {
		sum += seconds
	}
	// The user, nice, system, idle, iowait, irq, softirq and steal of all CPUs.
	used["others"] = whole[0] + whole[1] + whole[2] + whole[5] + whole[6] - sum
	used["idle"], used["stolen"] = whole[3]+whole[4], whole[7]
	return used
}

// since is the difference to an earlier reading.
func (c cpuSeconds) since(before cpuSeconds) cpuSeconds {
	if c == nil || before == nil {
		return nil
	}
	used := cpuSeconds{}
	for kind, seconds := range c {
		used[kind] = max(seconds-before[kind], 0)
	}
	return used
}

func (c cpuSeconds) String() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&b, " %s %.1f", kind, c[kind])
	}
	return "\tCPU s" + b.String()
}

// machineTime is the first line of /proc/stat, in seconds.
func machineTime() (times [8]float64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return times, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) <= len(times) {
		return times, false
	}
	for i := range times {
		n, err := strconv.ParseFloat(fields[i+1], 64)
		if err != nil {
			return times, false
		}
		times[i] = n / ticks
	}
	return times, true
}

// processTime is the CPU time of a process and of its children, those that have ended included.
func processTime(pid int) float64 {
	_, seconds := statOf(pid, true)
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return seconds
	}
	for _, folder := range all {
		child, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		if parent, own := statOf(child, false); parent == pid {
			seconds += own
		}
	}
	return seconds
}

// statOf reads a process's parent and CPU time from /proc; ended adds that of its children that have ended. A process
// that is gone has none.
func statOf(pid int, ended bool) (parent int, seconds float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may have spaces
	fields := strings.Fields(rest)
	const ppid, utime, cutime, after = 1, 11, 13, 15
	if len(fields) < after {
		return 0, 0
	}
	last := cutime
	if ended {
		last = after
	}
	for _, field := range fields[utime:last] {
		if n, err := strconv.ParseFloat(field, 64); err == nil {
			seconds += n / ticks
		}
	}
	parent, _ = strconv.Atoi(fields[ppid])
	return parent, seconds
}

// ownTime is the CPU time of this process and of its children that have ended.
func ownTime() (seconds float64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if syscall.Getrusage(who, &used) == nil {
			seconds += float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
		}
	}
	return seconds
}
