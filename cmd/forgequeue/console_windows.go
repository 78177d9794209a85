package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// prepareConsole turns on the escape sequences of colours and progress bars. Windows Terminal has them on, the older
// console does not.
func prepareConsole() {
	for _, stream := range []*os.File{os.Stdout, os.Stderr} {
		console := windows.Handle(stream.Fd())
		var mode uint32
		if windows.GetConsoleMode(console, &mode) == nil { // else it is none
			_ = windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
		}
	}
}
