//go:build unix

package child

import "syscall"

func setGroup(attr *syscall.SysProcAttr) { attr.Setpgid = true }
