package bench

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"testing"
)

func TestOnlyThisMachineIsLoaded(t *testing.T) {
	t.Parallel()
	look := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		switch host {
		case "localhost":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, nil
		case "both.example":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")}, nil
		case "none.example":
			return nil, nil
		}
		return nil, errors.New("no such host")
	}
	for address, ok := range map[string]bool{
		"http://127.0.0.1:8080":          true,
		"http://127.9.9.9":               true,
		"http://[::1]:8080":              true,
		"http://[::ffff:127.0.0.1]:8080": true,
		"http://localhost:8080":          true,
		"http://0.0.0.0:8080":            false,
		"http://192.0.2.1":               false,
		"http://10.0.0.1:8080":           false,
		"https://both.example":           false,
		"https://none.example":           false,
		"https://unknown.example":        false,
		"http://127.0.0.1.example":       false,
	} {
		base, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := onlyLoopback(t.Context(), base, look); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
		for _, core := range []bool{false, true} {
			s := defaultSettings()
			_, err = s.open(t.Context(), target{url: address, core: core}, look)
			if (err == nil) != ok {
				t.Errorf("%s, core %v: %v", address, core, err)
			}
			s.allowRemote = true
			if _, err := s.open(t.Context(), target{url: address, core: core}, look); err != nil {
				t.Errorf("%s with --allow-remote: %v", address, err)
			}
		}
	}
}

func TestTheTargetComesFromTheEnvironment(t *testing.T) {
	t.Parallel()
	local := func() (Server, bool) {
		return Server{Gateway: "http://local", APIKey: "k", OperatorKey: "o"}, true
	}
	none := func() (Server, bool) { return Server{}, false }
	const secret = "0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		env  map[string]string
		core string
		find func() (Server, bool)
		want string
	}{
		"given":         {map[string]string{"FORGEQUEUE_URL": "http://a", "FORGEQUEUE_API_KEY": "k"}, "", none, "http://a"},
		"default":       {map[string]string{"FORGEQUEUE_API_KEY": "k"}, "", none, "http://127.0.0.1:8080"},
		"local":         {nil, "", local, "http://local"},
		"none":          {nil, "", none, ""},
		"no key":        {map[string]string{"FORGEQUEUE_URL": "http://a"}, "", local, ""}, // the key of `up` is not sent to another server
		"operator only": {map[string]string{"FORGEQUEUE_URL": "http://a", "FORGEQUEUE_OPERATOR_KEY": "o"}, "", none, "http://a"},
		"core":          {map[string]string{"FORGEQUEUE_HOP_SECRET": secret}, "http://c", none, "http://c"},
		"core, short":   {map[string]string{"FORGEQUEUE_HOP_SECRET": "short"}, "http://c", none, ""},
	} {
		s := defaultSettings()
		s.core = test.core
		got, err := s.find(Options{Getenv: func(name string) string { return test.env[name] }, Local: test.find}, func(string) {})
		if (err == nil) != (test.want != "") || err == nil && got.url != test.want {
			t.Errorf("%s: %q %v", name, got.url, err)
		}
	}
}
