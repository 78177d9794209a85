package console

func showOverview(v *visit) (shown, error) {
	if v.session.Operator {
		return shown{}, moved{home(true)}
	}
	return shown{}, moved{"/console/jobs"}
}
