package main

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// cpuSeconds is CPU time by kind of process, in seconds: gateway, core, postgres, redis and generator (this process and
// the benches that it ran), and of the whole machine others, idle and stolen. Empty where there is no /proc.
type cpuSeconds map[string]float64

// kinds are cpuSeconds' keys, in the order in which they are printed.
var kinds = []string{"gateway", "core", "redis", "postgres", "generator", "others", "idle", "stolen"}

// cpu reads what each process has used so far.
func (s *stack) cpu() cpuSeconds {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil
	}
	whole, err := fs.Stat()
	if err != nil {
		return nil
	}
	processes := processTimes(fs)
	used := cpuSeconds{
		"gateway": processes[s.gateway.Process.Pid], "core": processes[s.core.Process.Pid],
		"postgres": processes[s.m.postgres.Pid()], "generator": ownTime(),
	}
	if s.m.redis != nil {
		used["redis"] = processes[s.m.redis.Pid()]
	}
	all := whole.CPUTotal
	used["others"] = all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ
	for _, kind := range []string{"gateway", "core", "redis", "postgres", "generator"} {
		used["others"] -= used[kind]
	}
	used["idle"], used["stolen"] = all.Idle+all.Iowait, all.Steal
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

// processTimes is the CPU time of every process with that of its children and of its group, by process id.
func processTimes(fs procfs.FS) map[int]float64 {
	times := map[int]float64{}
	processes, _ := fs.AllProcs() // none: all are counted as others
	for _, process := range processes {
		stat, err := process.Stat()
		if err != nil {
			continue // it has ended
		}
		ended := procfs.ProcStat{UTime: uint(max(stat.CUTime, 0)), STime: uint(max(stat.CSTime, 0))}
		times[stat.PID] += stat.CPUTime() + ended.CPUTime()
		times[stat.PPID] += stat.CPUTime()
		if stat.PGRP != stat.PID && stat.PGRP != stat.PPID { // RabbitMQ is a child of its script's child
			times[stat.PGRP] += stat.CPUTime()
		}
	}
	return times
}

// allTimes is processTimes of this moment.
func allTimes() (map[int]float64, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	return processTimes(fs), nil
}

// resident is the memory of a process, of its children and of its group, in MB.
func resident(pid int) (megabytes float64) {
	processes, _ := procfs.AllProcs() // none: 0 says it
	for _, process := range processes {
		stat, err := process.Stat()
		if err == nil && (stat.PID == pid || stat.PPID == pid || stat.PGRP == pid) {
			megabytes += float64(stat.ResidentMemory()) / 1e6
		}
	}
	return megabytes
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
