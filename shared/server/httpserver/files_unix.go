//go:build unix

package httpserver

import "syscall"

// openFiles is how many files the process may have open at once, at most mostFiles.
func openFiles() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 4 * otherFiles // a guess
	}
	return int(min(files.Cur, mostFiles))
}
