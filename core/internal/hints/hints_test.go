package hints_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

// The channels are the same for every process, so these tests share one Redis
// with each other and know their own hints by the lanes.

func client(t *testing.T, redisURL string) *redisclient.Client {
	t.Helper()
	c, err := hints.Connect(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw is a connection of the test's own to the same server.
func raw(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(storetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// databaseID is the identity of the database of most cores here.
const databaseID = "tests"

func database(context.Context) (string, error) { return databaseID, nil }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// listener is one core's ear.
type listener struct {
	*hints.Hints
	mu      sync.Mutex
	woken   [][]lanes.ID
	over    []uuid.UUID
	changes int
	left    []string
}

func (l *listener) wake(lists []jobs.Waiting) {
	lanes := make([]lanes.ID, len(lists))
	for i := range lists {
		lanes[i] = lists[i].Lane
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.woken = append(l.woken, lanes)
}

func (l *listener) ended(ids []uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = append(l.over, ids...)
}

func (l *listener) leave(owner uuid.UUID, workerID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = append(l.left, owner.String()+" "+workerID)
}

func (l *listener) hasLeft(owner uuid.UUID, workerID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.left, owner.String()+" "+workerID)
}

func (l *listener) settings() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
}

// received gives the jobs that ended, and how often settings changed.
func (l *listener) received() (over []uuid.UUID, settings int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.over), l.changes
}

func (l *listener) has(ids ...lanes.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.woken, func(one []lanes.ID) bool { return slices.Equal(one, ids) })
}

// start runs Hints until stop, which says that Run has returned nil.
func start(t *testing.T, c *redisclient.Client) (l *listener, stop func()) {
	t.Helper()
	return startOf(t, hints.New(database, c, quiet()))
}

func startOf(t *testing.T, of *hints.Hints) (l *listener, stop func()) {
	t.Helper()
	l = &listener{Hints: of}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- l.Run(ctx, hints.Listener{Ready: l.wake, Ended: l.ended, Settings: l.settings, Left: l.leave})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run = %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return l, stop
}

// of gives wake-ups of lanes.
func of(lanes ...lanes.ID) []jobs.Waiting {
	lists := make([]jobs.Waiting, len(lanes))
	for i, lane := range lanes {
		lists[i] = jobs.Waiting{Ready: jobs.Ready{Lane: lane}, Jobs: 1}
	}
	return lists
}

func TestReadyWakesTheOthersAndNotOneself(t *testing.T) {
	t.Parallel()
	c := client(t, storetest.Redis(t))
	one, _ := start(t, c)
	two, _ := start(t, c)
	// a hint that is sent before the other listens is lost, by design
	celltest.Eventually(t, "the other to hear", func() bool { one.Ready(of(11, 12, 11)); return two.has(11, 12, 11) })
	celltest.Eventually(t, "the first to hear", func() bool { two.Ready(of(21)); return one.has(21) })
	if one.has(11, 12, 11) || two.has(21) {
		t.Error("a core woke itself")
	}
}

// Lanes of two databases, of two installations or two cells of one, may have the same numbers: their cores on one Redis get
// no message of each other, and none counts as a receiver of a core that is alone.
func TestHintsStayWithTheirDatabase(t *testing.T) {
	t.Parallel()
	c := client(t, storetest.Redis(t))
	of1 := func(context.Context) (string, error) { return "of-one-" + t.Name(), nil }
	var asked atomic.Int64
	of2 := func(context.Context) (string, error) { // it does not answer at once
		if asked.Add(1) == 1 {
			return "", errors.New("the database is away")
		}
		return "of-two-" + t.Name(), nil
	}
	one, _ := startOf(t, hints.New(of1, c, quiet()))
	same, _ := startOf(t, hints.New(of1, c, quiet()))
	other, _ := startOf(t, hints.New(of2, c, quiet()))
	celltest.Eventually(t, "the other core of the database to hear", func() bool { one.Ready(of(31, 32)); return same.has(31, 32) })
	late, _ := startOf(t, hints.New(of2, c, quiet()))
	celltest.Eventually(t, "the second database's to hear its own", func() bool { late.Ready(of(41)); return other.has(41) })
	if other.has(31, 32) || late.has(31, 32) || one.has(41) || same.has(41) {
		t.Error("a hint of another database was heard")
	}
	channels, err := raw(t).PubSubNumSub(t.Context(), hop.ChannelReady+":of-one-"+t.Name(), hop.ChannelReady).Result()
	if err != nil || channels[hop.ChannelReady+":of-one-"+t.Name()] != 2 || channels[hop.ChannelReady] != 0 {
		t.Errorf("receivers: %v %v", channels, err)
	}
}

func TestEndsAndSettingsReachTheOthers(t *testing.T) {
	t.Parallel()
	c := client(t, storetest.Redis(t))
	one, _ := start(t, c)
	two, _ := start(t, c)
	id := uuid.New()
	celltest.Eventually(t, "the other to hear of both", func() bool {
		one.Ended([]uuid.UUID{id})
		one.Settings()
		over, settings := two.received()
		return slices.Contains(over, id) && settings > 0
	})
	if over, _ := one.received(); slices.Contains(over, id) {
		t.Error("a core received its own hint")
	}
}

func TestAGoodbyeReachesTheOthers(t *testing.T) {
	t.Parallel()
	c := client(t, storetest.Redis(t))
	one, _ := start(t, c)
	two, _ := start(t, c)
	owner := uuid.New()
	celltest.Eventually(t, "the other to hear", func() bool { one.Left(owner, "w"); return two.hasLeft(owner, "w") })
	if one.hasLeft(owner, "w") {
		t.Error("a core received its own hint")
	}
}

func TestALongHintIsCut(t *testing.T) {
	t.Parallel()
	c := client(t, storetest.Redis(t))
	one, _ := start(t, c)
	two, _ := start(t, c)
	ids := make([]lanes.ID, 5000)
	for i := range ids {
		ids[i] = lanes.ID(100_000 + i)
	}
	celltest.Eventually(t, "the other to hear the first 1000", func() bool { one.Ready(of(ids...)); return two.has(ids[:1000]...) })
}

// Hints are relied on some time after the subscription, not without one, and not after one of this core's was lost.
func TestHintsArriveWhileRedisIsHeard(t *testing.T) {
	t.Parallel()
	shared, name, own := ownUser(t)
	begun := time.Now()
	one, stop := startOf(t, hints.New(databaseOf(t), client(t, own), quiet()))
	if one.Arrive() {
		t.Error("they arrive before the subscription")
	}
	celltest.Eventually(t, "hints to arrive", one.Arrive)
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("they are relied on after %v", took)
	}
	acl(t, shared, name, "off")
	if err := shared.Do(t.Context(), "CLIENT", "KILL", "USER", name).Err(); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the loss to be known", func() bool { return !one.Arrive() })
	acl(t, shared, name, "on")
	celltest.Eventually(t, "hints to arrive again", one.Arrive)
	stop()
	if one.Arrive() {
		t.Error("they arrive after the end")
	}
	if hints.New(database, nil, quiet()).Arrive() {
		t.Error("they arrive without Redis")
	}
}

func TestNonsenseIsNoHint(t *testing.T) {
	t.Parallel()
	c := raw(t)
	one, _ := start(t, client(t, storetest.Redis(t)))
	celltest.Eventually(t, "what follows the nonsense", func() bool {
		for _, text := range []string{"", "nonsense", `{"from":1}`, `{"lines":"x"}`, `{"from":"x","lines":[{"l":31,"p":99,"n":-1}]}`} {
			if err := c.Publish(t.Context(), hop.ChannelReady+":"+databaseID, text).Err(); err != nil {
				t.Fatal(err)
			}
		}
		return one.has(31)
	})
}

func TestKeyRevokedReachesGateways(t *testing.T) {
	t.Parallel()
	c := client(t, storetest.Redis(t))
	gateway := raw(t).Subscribe(t.Context(), hop.ChannelKeyRevoked)
	defer func() { _ = gateway.Close() }()
	if _, err := gateway.Receive(t.Context()); err != nil { // subscribed
		t.Fatal(err)
	}
	one, _ := start(t, c)
	one.KeyRevoked("key-1")
	for {
		select {
		case m := <-gateway.Channel():
			if m.Payload == "key-1" {
				return
			}
		case <-time.After(time.Minute):
			t.Fatal("no gateway received it")
		}
	}
}

func TestWithoutRedisNothingIsSent(t *testing.T) {
	t.Parallel()
	h := hints.New(database, nil, quiet())
	h.Ready(of(1))
	h.Ended([]uuid.UUID{uuid.New()})
	h.Settings()
	h.KeyRevoked("key")
	if err := h.Run(t.Context(), hints.Listener{}); err != nil {
		t.Errorf("Run = %v", err)
	}
}

// frozen is a Redis that takes connections and never answers.
func frozen(t *testing.T) (redisURL string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = &atomic.Int64{}
	var mu sync.Mutex
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return "redis://" + l.Addr().String(), accepted
}

// Far more hints than the backlog holds: what does not fit is dropped, and no caller
// waits, whatever Redis does.
func TestABadRedisBlocksNobody(t *testing.T) {
	t.Parallel()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	frozenURL, accepted := frozen(t)
	for name, redisURL := range map[string]string{"frozen": frozenURL, "closed": "redis://" + dead.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			h, stop := start(t, client(t, redisURL))
			if name == "frozen" {
				celltest.Eventually(t, "a connection", func() bool { return accepted.Load() > 0 })
			}
			began := time.Now()
			for range 10_000 {
				h.Ready(of(1))
				h.KeyRevoked("key")
			}
			if took := time.Since(began); took > time.Minute { // one that waited for Redis would take a quarter of an hour
				t.Errorf("20,000 hints took %v", took)
			}
			stop()
		})
	}
}

// Not running at all is the slowest that a sender can be: wake-ups beyond the backlog
// are dropped, notifications of keys are not, and a repeated one is sent once.
func TestAFullBacklogDropsNoNotification(t *testing.T) {
	t.Parallel()
	c := client(t, storetest.Redis(t))
	gateway := raw(t).Subscribe(t.Context(), hop.ChannelKeyRevoked)
	defer func() { _ = gateway.Close() }()
	if _, err := gateway.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := hints.New(database, c, quiet())
	const keys = 3000
	mark := uuid.NewString()
	for i := range keys {
		h.Ready(of(1))
		h.KeyRevoked(fmt.Sprint(mark, i))
		h.KeyRevoked(fmt.Sprint(mark, i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, hints.Listener{Ready: func([]jobs.Waiting) {}}) }()
	defer func() { cancel(); <-done }()
	messages := gateway.Channel(redis.WithChannelSize(2 * keys))
	for next := 0; next < keys; {
		select {
		case m := <-messages:
			if !strings.HasPrefix(m.Payload, mark) {
				continue // another test's
			}
			if m.Payload != fmt.Sprint(mark, next) {
				t.Fatalf("received %s, and %d is next", m.Payload, next)
			}
			next++
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d keys were received", next, keys)
		}
	}
}

// unknownCommand is how an old server answers CLIENT: nonsense there would end the connection.
const unknownCommand = "-ERR unknown command\r\n"

// Notifications that Redis does not accept are repeated.
func TestNotificationsAreRepeated(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	taken := make(chan struct{})
	h, _ := start(t, client(t, fakeRedis(t, func(command []string) string {
		switch {
		case command[0] == "client":
			return unknownCommand
		case !slices.Contains(command, "a-key"):
			return "-LOADING not yet\r\n"
		case refused.Add(1) < 4:
			return "-LOADING not yet\r\n"
		default:
			close(taken) // a second time would be one too many
			return ":0\r\n"
		}
	})))
	h.KeyRevoked("a-key")
	select {
	case <-taken:
	case <-time.After(time.Minute):
		t.Fatalf("given up after %d times", refused.Load())
	}
}

// Whatever the server says, the process lives.
func TestRedisThatAnswersNonsense(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"numbers in a list":  "*3\r\n:1\r\n:2\r\n:3\r\n",
		"an empty list":      "*0\r\n",
		"a short message":    "*2\r\n$7\r\nmessage\r\n:1\r\n",
		"a length of memory": "*4000000000000\r\n",
		"no end of nesting":  strings.Repeat("*1\r\n", 1000),
		"another protocol":   "HTTP/1.1 400 Bad Request\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var subscribed atomic.Int64
			h, stop := start(t, client(t, fakeRedis(t, func(command []string) string {
				switch command[0] {
				case "client":
					return unknownCommand
				case "subscribe":
					subscribed.Add(1)
				}
				return text
			})))
			celltest.Eventually(t, "some subscriptions", func() bool {
				h.Ready(of(1))
				h.KeyRevoked("key")
				return subscribed.Load() > 3
			})
			stop()
		})
	}
}

// A core that lost hints says so as soon as Redis takes them again: others then look for what they were not told of.
func TestLostHintsAreSaid(t *testing.T) {
	t.Parallel()
	shared, name, own := ownUser(t)
	said := make(chan string, 100)
	one, _ := startOf(t, hints.New(databaseOf(t), client(t, own), slog.New(slog.NewTextHandler(writer(said), nil))))
	two, _ := startOf(t, hints.New(databaseOf(t), client(t, storetest.Redis(t)), quiet()))
	celltest.Eventually(t, "a first hint", func() bool { one.Ready(of(51)); return two.has(51) })
	celltest.Eventually(t, "hints to arrive", two.Arrive)
	since := two.Since()
	acl(t, shared, name, "off")
	if err := shared.Do(t.Context(), "CLIENT", "KILL", "USER", name).Err(); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "hints to be lost", func() bool { one.Ready(of(52)); return len(said) > 0 })
	if two.Since() != since {
		t.Error("the other core knows of the loss before it is told")
	}
	acl(t, shared, name, "on")
	celltest.Eventually(t, "the loss to be said", func() bool { return two.Since() > since })
	celltest.Eventually(t, "hints to be relied on again", two.Arrive)
}

// writer sends what is written to it.
type writer chan<- string

func (w writer) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// databaseOf is the identity of a test's own database: losses of other tests are not its own.
func databaseOf(t *testing.T) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return t.Name(), nil }
}

// acl switches a user of Redis.
func acl(t *testing.T, shared *redis.Client, name, to string) {
	t.Helper()
	if err := shared.Do(t.Context(), "ACL", "SETUSER", name, to).Err(); err != nil {
		t.Fatal(err)
	}
}

// ownUser makes a user of Redis, by whom the connections of a test are found.
func ownUser(t *testing.T) (shared *redis.Client, name, redisURL string) {
	t.Helper()
	shared = raw(t)
	name = "lost-" + uuid.NewString()
	if err := shared.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Do(context.WithoutCancel(t.Context()), "ACL", "DELUSER", name).Err() })
	at, err := url.Parse(storetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(name, "secret")
	return shared, name, at.String()
}

func TestHintsSurviveALostConnection(t *testing.T) {
	t.Parallel()
	shared, name, own := ownUser(t)
	one, _ := start(t, client(t, own))
	two, _ := start(t, client(t, own))
	celltest.Eventually(t, "a first hint", func() bool { one.Ready(of(41)); return two.has(41) })
	if killed, err := shared.Do(t.Context(), "CLIENT", "KILL", "USER", name).Int(); err != nil || killed < 2 {
		t.Fatalf("%d connections were cut, %v", killed, err)
	}
	celltest.Eventually(t, "a hint afterwards", func() bool { one.Ready(of(42)); return two.has(42) })
}

// fakeRedis is a server that answers each command with what answer makes of its words, which may be nonsense; HELLO alone
// it refuses, as old servers do.
func fakeRedis(t *testing.T, answer func(command []string) string) (url string) {
	t.Helper()
	fake, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	fake.SetPreHook(func(peer *server.Peer, command string, words ...string) bool {
		if command == "HELLO" {
			peer.WriteError("ERR unknown command")
		} else {
			peer.WriteRaw(answer(append([]string{strings.ToLower(command)}, words...)))
		}
		return true
	})
	return "redis://" + fake.Addr().String()
}
