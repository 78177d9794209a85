// Package redisurl reads the URL of a Redis: one server, a cluster, or what Sentinel watches.
//
//	redis://[[user]:password@]host[:6379][/database]
//	unix://[[user]:password@]/path/of/socket[?db=database]
//	redis://[[user]:password@]host[:6379]?addr=host:port&addr=host:port   a cluster's nodes, some of them
//	redis://[[user]:password@]host[:6379]?cluster=true                    a cluster, by one name
//	redis://[[user]:password@]host[:26379][/database]?master_name=NAME&addr=host:port
//	                                                                      Sentinels that watch NAME
//
// With rediss:// all connections use TLS, those to Sentinels too. The parameters tls_ca, tls_cert and
// tls_key name files in PEM; without tls_ca the system's authorities are trusted. Sentinels that ask for
// a password of their own: sentinel_username, sentinel_password. Other parameters are errors.
package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Form is what a URL should look like, in short.
const Form = "redis://[[user]:password@]host:port[/database]"

// Target says where Redis is, and how to speak to it.
type Target struct {
	// Addrs are host:port, or one path of a socket.
	Addrs []string
	// Cluster says that Addrs are nodes of a cluster.
	Cluster bool
	// Master is the name under which Sentinels, which Addrs then are, know the server; else empty.
	Master             string
	Username, Password string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword string
	// DB is the database, 0 in a cluster.
	DB int
	// TLS is nil for plain connections. It names no server: each certificate is held against the
	// address that was dialled.
	TLS *tls.Config
}

var errForm = errors.New("must look like " + Form)

// Parse reads a URL, and the files that it names. The error repeats neither the URL nor a password.
func Parse(text string) (Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Target{}, errForm
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Target{}, errForm
	}
	p := params{query}
	t := Target{Username: u.User.Username()}
	t.Password, _ = u.User.Password()
	var secure bool
	switch u.Scheme {
	case "unix":
		if err := t.socket(u, p); err != nil {
			return Target{}, err
		}
		return t, p.rest()
	case "redis":
	case "rediss":
		secure = true
	default:
		return Target{}, errForm
	}
	if err := t.servers(u, p); err != nil {
		return Target{}, err
	}
	files := [3]string{p.take("tls_ca"), p.take("tls_cert"), p.take("tls_key")}
	switch {
	case secure:
		if t.TLS, err = tlsConfig(files[0], files[1], files[2]); err != nil {
			return Target{}, err
		}
	case files != [3]string{}:
		return Target{}, errors.New("tls_ca, tls_cert and tls_key are of use only with rediss://")
	}
	return t, p.rest()
}

func (t *Target) socket(u *url.URL, p params) error {
	var err error
	if t.DB, err = database(p.take("db")); err != nil || u.Path == "" || u.Host != "" {
		return errForm
	}
	t.Addrs = []string{u.Path}
	return nil
}

// servers reads addresses, database, and what they are of.
func (t *Target) servers(u *url.URL, p params) error {
	t.Master = p.take("master_name")
	t.SentinelUsername, t.SentinelPassword = p.take("sentinel_username"), p.take("sentinel_password")
	port := "6379"
	if t.Master != "" {
		port = "26379"
	}
	for _, address := range append([]string{u.Host}, p.all("addr")...) {
		full, err := withPort(address, port)
		if err != nil {
			return err
		}
		t.Addrs = append(t.Addrs, full)
	}
	asked := p.take("cluster")
	if asked != "" && asked != "true" && asked != "false" {
		return errors.New("cluster: must be true or false")
	}
	t.Cluster = asked == "true" || t.Master == "" && len(t.Addrs) > 1
	path, inQuery := strings.Trim(u.Path, "/"), p.take("db")
	if path != "" && inQuery != "" {
		return errors.New("the database is given twice")
	}
	db, err := database(path + inQuery)
	switch {
	case err != nil:
		return errForm
	case t.Cluster && t.Master != "":
		return errors.New("master_name is of Sentinel, which does not watch a cluster")
	case t.Cluster && db != 0:
		return errors.New("a cluster has database 0 only")
	case t.Master == "" && t.SentinelUsername+t.SentinelPassword != "":
		return errors.New("sentinel_username and sentinel_password are of use only with master_name")
	}
	t.DB = db
	return nil
}

func database(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// withPort completes host, host:port, [::1] and [::1]:port. An empty host is this machine.
func withPort(address, port string) (string, error) {
	host, given, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	} else if given != "" {
		port = given
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errForm
	}
	if host == "" {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

func tlsConfig(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls_ca: %s has no certificate in PEM", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("tls_cert and tls_key belong together")
	}
	if cert != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// params are a URL's parameters that were not read yet.
type params struct{ values url.Values }

func (p params) take(name string) string {
	value := p.values.Get(name)
	delete(p.values, name)
	return value
}

func (p params) all(name string) []string {
	values := p.values[name]
	delete(p.values, name)
	return values
}

// rest refuses what was not read: a misspelt tls_ca must not go unnoticed.
func (p params) rest() error {
	for name := range p.values {
		return fmt.Errorf("%s: there is no such parameter", name)
	}
	return nil
}
