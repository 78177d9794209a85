package child

import "syscall"

// setGroup also turns Ctrl-C off for the child; Ctrl-Break stays.
func setGroup(attr *syscall.SysProcAttr) { attr.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP }
