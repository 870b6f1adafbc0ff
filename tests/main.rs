fn nothing() {}
