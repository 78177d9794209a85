package settings_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/settings"
)

type config struct {
	Wait  time.Duration `env:"FQ_WAIT"  envDefault:"2s"`
	Conns int32         `env:"FQ_CONNS" envDefault:"16"`
	Safe  bool          `env:"FQ_SAFE"`
	Rate  float64       `env:"FQ_RATE"`
}

// Who sets a variable knows its name, and not that of the field in Go.
func TestUnreadableSettingsAreNamedByTheirVariables(t *testing.T) {
	t.Parallel()
	var read config
	err := settings.Read(&read, map[string]string{"FQ_WAIT": "soon", "FQ_CONNS": "many", "FQ_SAFE": "perhaps", "FQ_RATE": "fast"})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"FQ_WAIT: ", "FQ_CONNS: ", "FQ_SAFE: ", "FQ_RATE: "} {
		if strings.Count(err.Error(), name) != 1 {
			t.Errorf("%q is not named once: %v", name, err)
		}
	}
	for _, field := range []string{"Wait", "Conns", "Safe", "Rate"} {
		if strings.Contains(err.Error(), field) {
			t.Errorf("the field %s is named: %v", field, err)
		}
	}
	if read.Wait != 2*time.Second || read.Conns != 16 {
		t.Errorf("the defaults are gone: %+v", read)
	}
	if err := settings.Read(&read, map[string]string{"FQ_WAIT": "3s"}); err != nil || read.Wait != 3*time.Second || read.Conns != 16 {
		t.Errorf("%+v, %v", read, err)
	}
}
