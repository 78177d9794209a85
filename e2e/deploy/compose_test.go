package deploy_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const top = "../.."

// profile is the one profile: with it Prometheus and Grafana run too.
const profile = "obs"

// load reads the Compose file as docker compose does, with this environment only.
func load(t *testing.T, profiles []string, environment ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(top, "docker-compose.yml")}, cli.WithEnv(environment), cli.WithProfiles(profiles))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// project has all services, those of the profile too.
func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := load(t, []string{profile}, "FORGEQUEUE_UID=1000", "FORGEQUEUE_GID=1000")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// oneShot are the services that do their work and end.
var oneShot = []string{"key", "migrate"}

func TestComposeRefusesWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, environment := range [][]string{nil, {"FORGEQUEUE_UID=1000"}, {"FORGEQUEUE_UID=", "FORGEQUEUE_GID=1000"}} {
		if _, err := load(t, nil, environment...); err == nil || !strings.Contains(err.Error(), "run make secrets") {
			t.Errorf("%v: %v", environment, err)
		}
	}
}

// Only the gateway is published, on loopback, and in a range so that there is a
// port for each of several; in the profile obs, which has pages for people, so are
// Prometheus and Grafana, each on a port that can be chosen.
func TestComposePublishesTheGatewayAlone(t *testing.T) {
	t.Parallel()
	targets := map[string]uint32{"gateway": 8080, "prometheus": 9090, "grafana": 3000}
	for name, service := range project(t).Services {
		if service.NetworkMode != "" || service.Privileged || service.Pid != "" || service.Ipc != "" {
			t.Errorf("%s: shares something of the machine's", name)
		}
		target, published := targets[name]
		if !published {
			if len(service.Ports) > 0 {
				t.Errorf("%s is published: %v", name, service.Ports)
			}
			continue
		}
		if len(service.Ports) != 1 || service.Ports[0].Target != target {
			t.Fatalf("%s: its ports are %v", name, service.Ports)
		}
		address, err := netip.ParseAddr(service.Ports[0].HostIP)
		if err != nil || !address.IsLoopback() {
			t.Errorf("%s is published on %q", name, service.Ports[0].HostIP)
		}
	}
	first, last, _ := strings.Cut(project(t).Services["gateway"].Ports[0].Published, "-")
	from, _ := strconv.Atoi(first)
	to, _ := strconv.Atoi(last)
	if to <= from {
		t.Errorf("the gateway's ports: %d to %d", from, to)
	}
}

func TestComposeHardens(t *testing.T) {
	t.Parallel()
	for name, service := range project(t).Services {
		if !slices.Equal(service.CapDrop, []string{"ALL"}) {
			t.Errorf("%s drops the capabilities %v", name, service.CapDrop)
		}
		// PostgreSQL's entrypoint becomes postgres by itself; all others are not root from
		// the start.
		if name == "postgres" {
			if want := []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}; !slices.Equal(service.CapAdd, want) {
				t.Errorf("%s has the capabilities %v, want %v", name, service.CapAdd, want)
			}
		} else if len(service.CapAdd) > 0 || service.User != "1000:1000" {
			t.Errorf("%s runs as %q with the capabilities %v", name, service.User, service.CapAdd)
		}
		if !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may gain privileges: %v", name, service.SecurityOpt)
		}
		if !service.ReadOnly {
			t.Errorf("%s can write to its root file system", name)
		}
		if limits := service.Deploy; limits == nil || limits.Resources.Limits == nil || limits.Resources.Limits.MemoryBytes == 0 ||
			limits.Resources.Limits.NanoCPUs == 0 || limits.Resources.Limits.Pids == 0 {
			t.Errorf("%s lacks a limit of memory, processors or processes", name)
		}
		for _, mount := range service.Volumes {
			if strings.Contains(mount.Source, "docker.sock") {
				t.Errorf("%s gets the engine itself", name)
			}
		}
		if service.Logging == nil || service.Logging.Options["max-size"] == "" {
			t.Errorf("%s: its log has no bound", name)
		}
	}
}

// Everybody has a health check but what ends by itself, whose end is what is
// waited for.
func TestComposeHealthAndOrder(t *testing.T) {
	t.Parallel()
	services := project(t).Services
	for name, service := range services {
		ends := slices.Contains(oneShot, name)
		if check := service.HealthCheck; check == nil || check.Disable != ends || !ends && (len(check.Test) < 2 || check.Interval == nil || check.Timeout == nil) {
			t.Errorf("%s: health check %+v", name, check)
		}
		if wantRestart := map[bool]string{true: "no", false: "unless-stopped"}[ends]; service.Restart != wantRestart {
			t.Errorf("%s restarts %q, want %q", name, service.Restart, wantRestart)
		}
		for needed, how := range service.DependsOn {
			want := types.ServiceConditionHealthy
			if slices.Contains(oneShot, needed) {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if how.Condition != want {
				t.Errorf("%s needs %s to be %s, want %s", name, needed, how.Condition, want)
			}
		}
	}
}

// A container has longer to stop than its program takes to drain, or Docker kills
// what it has promised to end well.
func TestComposeGivesTimeToDrain(t *testing.T) {
	t.Parallel()
	services := project(t).Services
	grace := func(name string) time.Duration {
		given, err := time.ParseDuration(settings(services[name])["FORGEQUEUE_GRACE"])
		if err != nil {
			t.Errorf("%s: its FORGEQUEUE_GRACE must be written down: %v", name, err)
		}
		return given
	}
	for name, drain := range map[string]time.Duration{
		"core": grace("core"), "gateway": grace("gateway"),
		"worker": 20*time.Second + 8*time.Second, // worker.Options.Grace and what Run adds at most
		"key":    0, "migrate": 0, "redis": 0, "postgres": time.Minute, "prometheus": 0, "grafana": 0,
	} {
		if given := services[name].StopGracePeriod; given == nil || time.Duration(*given) < drain+10*time.Second {
			t.Errorf("%s has %v to stop, and may take %v", name, given, drain)
		}
	}
}

func settings(service types.ServiceConfig) map[string]string {
	all := map[string]string{}
	for name, value := range service.Environment {
		if value != nil {
			all[name] = *value
		}
	}
	return all
}

// No secret is in the file or in an environment, and each goes only where it is
// needed: above all, core never sees the keys' secret, and a worker none of these.
func TestComposeSecretsAreFiles(t *testing.T) {
	t.Parallel()
	p := project(t)
	suspicious := regexp.MustCompile(`(?i)(PASSWORD|SECRET|_KEY|TOKEN|_URL)$`)
	harmless := []string{"FORGEQUEUE_URL", "FORGEQUEUE_CORE_URL"}
	given := map[string][]string{}
	for name, service := range p.Services {
		for variable, value := range settings(service) {
			if suspicious.MatchString(variable) && !slices.Contains(harmless, variable) {
				t.Errorf("%s: %s is in the environment", name, variable)
			}
			if path, ok := strings.CutPrefix(value, "/run/secrets/"); ok && !slices.ContainsFunc(service.Secrets, func(s types.ServiceSecretConfig) bool { return s.Source == path }) {
				t.Errorf("%s: %s names the secret %s, which it does not get", name, variable, path)
			}
		}
		for _, secret := range service.Secrets {
			given[secret.Source] = append(given[secret.Source], name)
		}
	}
	want := map[string][]string{
		"postgres_password": {"postgres"}, "core_password": {"postgres"}, "database_url": {"core", "migrate"},
		"redis_password": {"redis"}, "redis_url": {"core", "gateway"},
		"hop_secret": {"core", "gateway"}, "key_secret": {"gateway"}, "console_secret": {"gateway"}, "push_secrets_key": {"core"}, "operator_key": {"gateway", "key"},
		"grafana_password": {"grafana"},
	}
	for name, secret := range p.Secrets {
		slices.Sort(given[name])
		if !slices.Equal(given[name], want[name]) {
			t.Errorf("the secret %s goes to %v, want %v", name, given[name], want[name])
		}
		if filepath.Base(filepath.Dir(secret.File)) != "secrets" || filepath.Base(secret.File) != name || secret.Environment != "" || secret.Content != "" {
			t.Errorf("the secret %s is not the file secrets/%[1]s: %+v", name, secret)
		}
	}
	if len(p.Secrets) != len(want) {
		t.Errorf("%d secrets, want %d", len(p.Secrets), len(want))
	}
}

// Core and migrate are not PostgreSQL's superuser, whom the image makes, but a role that
// owns the database.
func TestCoreIsNoSuperuser(t *testing.T) {
	t.Parallel()
	postgres := project(t).Services["postgres"]
	url := regexp.MustCompile(`\nkeep database_url "postgres://(\w+):\$\(cat secrets/core_password\)@`).FindStringSubmatch(read(t, ".ci/secrets"))
	if url == nil || url[1] == settings(postgres)["POSTGRES_USER"] {
		t.Fatalf("core connects as %q", url)
	}
	entrypoint := strings.Join(postgres.Entrypoint, "\n")
	for _, want := range []string{
		"CREATE ROLE " + url[1] + " ", " NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;",
		"ALTER DATABASE " + settings(postgres)["POSTGRES_DB"] + " OWNER TO " + url[1] + ";",
	} {
		if !strings.Contains(entrypoint, want) {
			t.Errorf("the start of PostgreSQL lacks %q", want)
		}
	}
}

// What .ci/secrets makes is what the Compose file asks for, and neither git nor an
// image ever gets it.
func TestSecretsAreMadeAndIgnored(t *testing.T) {
	t.Parallel()
	script := read(t, ".ci/secrets")
	for name := range project(t).Secrets {
		if !strings.Contains(script, "\nkeep "+name+" ") {
			t.Errorf(".ci/secrets does not make %s", name)
		}
	}
	for _, line := range []string{"/secrets/", "/.env"} {
		if !slices.Contains(strings.Split(read(t, ".gitignore"), "\n"), line) {
			t.Errorf(".gitignore lacks %s", line)
		}
	}
	ignored := strings.Split(read(t, ".dockerignore"), "\n")
	if !slices.Contains(ignored, "*") || slices.ContainsFunc(ignored, func(line string) bool {
		return strings.HasPrefix(line, "!") && !slices.Contains([]string{"!core", "!gateway", "!shared", "!cmd"}, line)
	}) {
		t.Error(".dockerignore lets more in than the modules")
	}
}

// The stores are reached by those who need them; their network has no way out.
func TestComposeNetworks(t *testing.T) {
	t.Parallel()
	p := project(t)
	want := map[string][]string{
		"store": {"core", "migrate", "postgres"}, "inner": {"core", "gateway", "redis"}, "edge": {"gateway", "key", "worker"}, "out": {"core"},
		"metrics": {"core", "gateway", "prometheus"}, "obs": {"grafana", "prometheus"},
	}
	got := map[string][]string{}
	for name, service := range p.Services {
		for network := range service.Networks {
			got[network] = append(got[network], name)
		}
	}
	for network, members := range want {
		slices.Sort(got[network])
		if !slices.Equal(got[network], members) {
			t.Errorf("the network %s has %v, want %v", network, got[network], members)
		}
		if inside := slices.Contains([]string{"store", "inner", "metrics"}, network); p.Networks[network].Internal != inside {
			t.Errorf("the network %s is internal: %v", network, !inside)
		}
	}
	if len(got) != len(want) {
		t.Errorf("networks %v", got)
	}
	// What is published cannot be on an internal network; but nothing gets out of this one.
	if p.Networks["obs"].DriverOpts["com.docker.network.bridge.enable_ip_masquerade"] != "false" {
		t.Error("Prometheus and Grafana have a way out")
	}
}

// All data is in named volumes, and PostgreSQL keeps what it has acknowledged.
func TestComposeKeepsData(t *testing.T) {
	t.Parallel()
	p := project(t)
	postgres := p.Services["postgres"]
	if len(postgres.Volumes) != 1 || postgres.Volumes[0].Type != types.VolumeTypeVolume || p.Volumes[postgres.Volumes[0].Source].Name == "" {
		t.Errorf("the data of PostgreSQL is in %v", postgres.Volumes)
	}
	command := strings.Join(postgres.Command, " ")
	for _, setting := range []string{"-cfsync=on", "-cfull_page_writes=on", "-csynchronous_commit=on"} {
		if !strings.Contains(command, setting) {
			t.Errorf("PostgreSQL lacks %s: %s", setting, command)
		}
	}
	for name, service := range p.Services {
		if settings(service)["FORGEQUEUE_ALLOW_LOSSY_DATABASE"] != "" {
			t.Errorf("%s accepts a database that loses jobs", name)
		}
	}
}

// Every image that is pulled has a version tag; what we build is a stage of the Dockerfile, on a distroless base.
func TestImages(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`^[a-z./-]+:v?\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?(@sha256:[0-9a-f]{64})?$`)
	for name, service := range project(t).Services {
		if service.Build == nil {
			if !version.MatchString(service.Image) {
				t.Errorf("%s: %s has no whole version tag", name, service.Image)
			}
			continue
		}
		program := service.Build.Args["PROGRAM"]
		if program == nil || !strings.Contains(service.Image, "/"+*program+":") || !strings.Contains(read(t, service.Build.Dockerfile), "\nFROM base AS "+*program+"\n") {
			t.Errorf("%s: %s is built of %+v", name, service.Image, service.Build)
		}
	}
	froms := regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(read(t, "Dockerfile"), -1)
	if len(froms) != 6 || !regexp.MustCompile(` golang:\d+\.\d+\.\d+-\w+(@sha256:\S+)? AS build$`).MatchString(froms[0]) ||
		!regexp.MustCompile(`^FROM gcr\.io/distroless/static-debian\d+:nonroot(@sha256:\S+)? AS base$`).MatchString(froms[1]) ||
		!slices.Equal(froms[2:], []string{"FROM base AS core", "FROM base AS gateway", "FROM base AS forgequeue", "FROM ${PROGRAM}"}) {
		t.Errorf("the stages are %q", froms)
	}
}

// What the Dockerfile compiles, and by which profile, is there.
func TestTheDockerfileNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	file := read(t, "Dockerfile")
	cases := regexp.MustCompile(`(?m)^ +(\w+)\) module=(\S+) tags=\S+ mains=("[^"]+"|\S+) ;; \\$`).FindAllStringSubmatch(file, -1)
	if len(cases) != 3 {
		t.Fatalf("it has the programs %q", cases)
	}
	for _, c := range cases {
		program, module, mains := c[1], c[2], strings.Fields(strings.Trim(c[3], `"`))
		if !strings.Contains(file, "\nENTRYPOINT [\"/usr/local/bin/"+program+"\"]\n") || filepath.Base(mains[0]) != program {
			t.Errorf("the image %s does not start what is built: %s", program, mains)
		}
		for _, name := range append(mains, "go.mod") {
			if _, err := os.Stat(filepath.Join(top, module, name)); err != nil {
				t.Errorf("%s: %v", program, err)
			}
		}
	}
	profile := regexp.MustCompile(`-pgo=/src/(\S+)`).FindStringSubmatch(file)
	if profile == nil {
		t.Fatal("it uses no profile")
	}
	if _, err := os.Stat(filepath.Join(top, profile[1])); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// How many there are is in .env, where every later command finds it.
func TestComposeRemembersTheScale(t *testing.T) {
	t.Parallel()
	p, err := load(t, nil, "FORGEQUEUE_UID=1000", "FORGEQUEUE_GID=1000", "FORGEQUEUE_CORES=3", "FORGEQUEUE_GATEWAYS=2")
	if err != nil {
		t.Fatal(err)
	}
	core, gateway := p.Services["core"], p.Services["gateway"]
	if core.GetScale() != 3 || gateway.GetScale() != 2 {
		t.Errorf("%d cores and %d gateways, want 3 and 2", core.GetScale(), gateway.GetScale())
	}
	if told := gateway.Environment["FORGEQUEUE_REPLICAS"]; told == nil || *told != "2" {
		t.Errorf("gateways are not told that they are two: %v", told)
	}
	p = project(t)
	if core := p.Services["core"]; core.GetScale() != 1 {
		t.Errorf("%d cores where nothing is said", core.GetScale())
	}
}
