// Checks that text never becomes markup.
#include "tools/report/html.h"

#include <gtest/gtest.h>

namespace tools::report {
namespace {

TEST(Html, TextIsEscaped) {
  EXPECT_EQ(Html::text("<script>alert('a' & \"b\")</script>").str(),
            "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;");
}

TEST(Html, ControlCharactersAreReplaced) {
  EXPECT_EQ(Html::text(std::string("a\0b\x1b\n", 5)).str(),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\n");
}

TEST(Html, AttributesAreEscaped) {
  const Html html = element("a", "x", {{"title", "\"><script>"}, {"hidden"}});
  EXPECT_EQ(html.str(), "<a title=\"&quot;&gt;&lt;script&gt;\" hidden>x</a>");
}

TEST(Html, ElementsNest) {
  EXPECT_EQ(element("p", element("b", "1 < 2") + Html::text(" & so on")).str(),
            "<p><b>1 &lt; 2</b> &amp; so on</p>");
}

TEST(Html, ALongNameMayBeBrokenBetweenItsParts) {
  EXPECT_EQ(breakable("onednn:brg.<x>_core").str(), "onednn:<wbr>brg.<wbr>&lt;x&gt;_<wbr>core");
  EXPECT_EQ(breakable("end_").str(), "end_");
  EXPECT_EQ(breakable("").str(), "");
}

TEST(Html, NothingInJsonEndsItsScript) {
  const std::string html = json_script(R"({"a":"</script><!--<script>"})").str();
  EXPECT_EQ(html,
            "<script type=\"application/json\">{\"a\":\"\\u003c/script>\\u003c!--\\u003cscript>\"}"
            "</script>");
}

}  // namespace
}  // namespace tools::report
