// What markdown-it takes from the package "entities", with the names of HTML 4 and of ASCII alone: its table of all 2,231
// would be a quarter of the page on the wire. Bundled in its place: `make markdown-it`.

// Code points, each followed by the names of it and of those after it, where one has several with commas.
const NAMES =
  "9 Tab NewLine 33 excl QUOT,quot num dollar percnt AMP,amp apos lpar rpar ast,midast plus comma 46 period sol " +
  "58 colon semi LT,lt equals GT,gt quest commat 91 lbrack,lsqb bsol rbrack,rsqb Hat UnderBar,lowbar " +
  "DiacriticalGrave,grave 123 lbrace,lcub VerticalLine,verbar,vert rbrace,rcub 160 nbsp iexcl cent pound curren " +
  "yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 " +
  "ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute " +
  "Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute " +
  "Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml " +
  "igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml " +
  "yacute thorn yuml 338 OElig oelig 352 Scaron scaron 376 Yuml 402 fnof 710 circ 732 tilde 913 Alpha Beta " +
  "Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho 931 Sigma Tau Upsilon Phi Chi " +
  "Psi Omega 945 alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf " +
  "sigma tau upsilon phi chi psi omega 977 thetasym upsih 982 piv 8194 ensp emsp 8201 thinsp 8204 zwnj zwj lrm " +
  "rlm 8211 ndash mdash 8216 lsquo rsquo sbquo 8220 ldquo rdquo bdquo 8224 dagger Dagger bull 8230 hellip 8240 " +
  "permil 8242 prime Prime 8249 lsaquo rsaquo 8254 oline 8260 frasl 8364 euro 8465 image 8472 weierp 8476 real " +
  "8482 trade 8501 alefsym 8592 larr uarr rarr darr harr 8629 crarr 8656 lArr uArr rArr dArr hArr 8704 forall " +
  "8706 part exist 8709 empty 8711 nabla isin notin 8715 ni 8719 prod 8721 sum minus 8727 lowast 8730 radic " +
  "8733 prop infin 8736 ang 8743 and or cap cup int 8756 there4 8764 sim 8773 cong 8776 asymp 8800 ne equiv " +
  "8804 le ge 8834 sub sup nsub 8838 sube supe 8853 oplus 8855 otimes 8869 perp 8901 sdot 8968 lceil rceil " +
  "lfloor rfloor 9001 lang rang 9674 loz 9824 spades 9827 clubs 9829 hearts diams 10003 check 10007 cross";

const TABLE = new Map();
let next = 0;
for (const word of NAMES.split(" ")) {
  if (/^\d/.test(word)) next = Number(word);
  else {
    for (const name of word.split(",")) TABLE.set(name, String.fromCodePoint(next));
    next++;
  }
}

function decoded(entity, code) {
  if (code[0] !== "#") return TABLE.get(code) ?? entity;
  const point = /^#x/i.test(code) ? parseInt(code.slice(2), 16) : Number(code.slice(1));
  const character = point > 0 && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
  return character ? String.fromCodePoint(point) : "\ufffd";
}

export const decodeHTMLStrict = (text) => text.replace(/&(#x[\da-f]{1,6}|#\d{1,7}|[a-z][\da-z]*);/gi, decoded);
