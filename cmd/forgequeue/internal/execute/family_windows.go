package execute

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// family is a command and what it has started: a job object. Windows ends all of a job when its last handle is
// closed, so also when the worker is killed.
type family struct {
	command *os.Process
	job     windows.Handle // 0: the command alone
}

// killed is the exit code of processes that are killed. It must not be one with a meaning.
const killed = 1

// familyOf makes the job object. What the command starts before it is in the job stays outside; that is microseconds
// after its start, when Windows is still loading the program.
func familyOf(command *os.Process) family {
	f := family{command: command}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return f
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))) //nolint:gosec // how the call takes a struct
	if err == nil {
		// It fails if the command has ended already.
		handleErr := command.WithHandle(func(handle uintptr) { err = windows.AssignProcessToJobObject(job, windows.Handle(handle)) })
		if err == nil {
			err = handleErr
		}
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return f
	}
	f.job = job
	return f
}

// terminate sends Ctrl-Break, the one request to end that a process group of Windows can get. It reaches
// the programs of the worker's own console; others get none, and are killed.
func (f family) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(f.command.Pid)) //nolint:gosec // Windows has 32 bits for it
}

func (f family) kill() {
	if f.job != 0 {
		_ = windows.TerminateJobObject(f.job, killed)
	}
	_ = f.command.Kill() // it may have ended
}

// end kills what is left of it, when the command has ended.
func (f family) end() {
	f.kill()
	if f.job != 0 {
		_ = windows.CloseHandle(f.job)
	}
}
