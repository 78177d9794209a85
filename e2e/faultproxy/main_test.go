package faultproxy_test

import (
	"os"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
