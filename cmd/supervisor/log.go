package supervisor

import (
	"bytes"
	"os"
	"strings"
)

const (
	tailLines = 20
	tailBytes = 8 << 10
)

// logFile is a server's output. The child writes to the file directly, not
// through this process: it still logs when its parent has ended.
type logFile struct {
	*os.File
	from int64 // where this run begins: the file is appended to
}

func openLog(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &logFile{File: f, from: info.Size()}, nil
}

// tail is the end of what this run has logged.
func (l *logFile) tail() string {
	info, err := l.Stat()
	if err != nil {
		return ""
	}
	from := max(l.from, info.Size()-tailBytes)
	buf := make([]byte, max(0, info.Size()-from))
	n, _ := l.ReadAt(buf, from)
	return lastLines(buf[:n])
}

func lastLines(text []byte) string {
	text = bytes.TrimSpace(text[max(0, len(text)-tailBytes):])
	lines := bytes.Split(text, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// quoteLog sets log lines apart from the text of the error that carries them.
func quoteLog(tail string) string {
	if tail == "" {
		return "; it logged nothing"
	}
	return "; it logged:\n    " + strings.ReplaceAll(tail, "\n", "\n    ")
}
